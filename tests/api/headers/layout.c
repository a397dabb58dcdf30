/*
 * The ABI's layout on LP64: the size of every public struct and the offset of every member, as programs and plugins
 * that were compiled earlier have them. A line here may be added, for a member at the end of a struct; one that has
 * been released never changes. No struct has padding, so a member that is missing here shows as a wrong size.
 *
 * Nothing runs: it compiles, as C11 and as C++, or it does not.
 */
#include <kvferry/kvferry.h>
#include <kvferry/plugin.h>
#include <stddef.h>

#ifdef __cplusplus
#define HOLDS(condition, what) static_assert(condition, what)
#else
#define HOLDS(condition, what) _Static_assert(condition, what)
#endif

#define SIZE(type, size) HOLDS(sizeof(type) == (size), "size of " #type)
#define OFFSET(type, member, offset) HOLDS(offsetof(type, member) == (offset), "offset of " #type "." #member)
#define VALUE(name, value) HOLDS((name) == (value), #name)

#if !defined(__LP64__)
#error "these are the numbers of LP64; a new data model needs its own"
#endif

/* kvferry.h */

SIZE(kvf_engine_config, 120);
OFFSET(kvf_engine_config, struct_size, 0);
OFFSET(kvf_engine_config, role, 4);
OFFSET(kvf_engine_config, name, 8);
OFFSET(kvf_engine_config, listen, 16);
OFFSET(kvf_engine_config, bootstrap, 24);
OFFSET(kvf_engine_config, shards, 32);
OFFSET(kvf_engine_config, max_rooms, 36);
OFFSET(kvf_engine_config, inbox, 40);
OFFSET(kvf_engine_config, window_ops, 44);
OFFSET(kvf_engine_config, window_bytes, 48);
OFFSET(kvf_engine_config, bootstrap_ms, 56);
OFFSET(kvf_engine_config, waiting_ms, 60);
OFFSET(kvf_engine_config, transfer_ms, 64);
OFFSET(kvf_engine_config, heartbeat_ms, 68);
OFFSET(kvf_engine_config, max_unclaimed, 72);
OFFSET(kvf_engine_config, tp_rank, 76);
OFFSET(kvf_engine_config, tp_size, 80);
OFFSET(kvf_engine_config, pp_rank, 84);
OFFSET(kvf_engine_config, pp_size, 88);
OFFSET(kvf_engine_config, dp_rank, 92);
OFFSET(kvf_engine_config, dp_size, 96);
OFFSET(kvf_engine_config, page_tokens, 100);
OFFSET(kvf_engine_config, kv_cache_dtype, 104);
OFFSET(kvf_engine_config, rank, 112);
OFFSET(kvf_engine_config, reserved, 116);

SIZE(kvf_tensor, 96);
OFFSET(kvf_tensor, group, 0);
OFFSET(kvf_tensor, layer, 4);
OFFSET(kvf_tensor, part, 8);
OFFSET(kvf_tensor, dtype, 12);
OFFSET(kvf_tensor, base, 16);
OFFSET(kvf_tensor, page_count, 24);
OFFSET(kvf_tensor, page_bytes, 32);
OFFSET(kvf_tensor, page_stride, 40);
OFFSET(kvf_tensor, rows, 48);
OFFSET(kvf_tensor, axis_begin, 56);
OFFSET(kvf_tensor, axis_count, 64);
OFFSET(kvf_tensor, axis_total, 72);
OFFSET(kvf_tensor, unit_bytes, 80);
OFFSET(kvf_tensor, memory_kind, 88);
OFFSET(kvf_tensor, device, 92);

SIZE(kvf_room, 8);
OFFSET(kvf_room, value, 0);

SIZE(kvf_room_status, 16);
OFFSET(kvf_room_status, struct_size, 0);
OFFSET(kvf_room_status, state, 4);
OFFSET(kvf_room_status, flags, 8);
OFFSET(kvf_room_status, code, 12);

SIZE(kvf_sender_options, 24);
OFFSET(kvf_sender_options, struct_size, 0);
OFFSET(kvf_sender_options, receivers, 4);
OFFSET(kvf_sender_options, bootstrap_ms, 8);
OFFSET(kvf_sender_options, waiting_ms, 12);
OFFSET(kvf_sender_options, transfer_ms, 16);
OFFSET(kvf_sender_options, priority, 20);

SIZE(kvf_receiver_options, 40);
OFFSET(kvf_receiver_options, struct_size, 0);
OFFSET(kvf_receiver_options, dp_choice, 4);
OFFSET(kvf_receiver_options, dp_rank, 8);
OFFSET(kvf_receiver_options, bootstrap_ms, 12);
OFFSET(kvf_receiver_options, waiting_ms, 16);
OFFSET(kvf_receiver_options, transfer_ms, 20);
OFFSET(kvf_receiver_options, prefix_tokens, 24);
OFFSET(kvf_receiver_options, priority, 32);
OFFSET(kvf_receiver_options, reserved, 36);

SIZE(kvf_index_list, 16);
OFFSET(kvf_index_list, group, 0);
OFFSET(kvf_index_list, count, 4);
OFFSET(kvf_index_list, indices, 8);

SIZE(kvf_chunk, 48);
OFFSET(kvf_chunk, struct_size, 0);
OFFSET(kvf_chunk, flags, 4);
OFFSET(kvf_chunk, lists, 8);
OFFSET(kvf_chunk, list_count, 16);
OFFSET(kvf_chunk, list_stride, 20);
OFFSET(kvf_chunk, layer_begin, 24);
OFFSET(kvf_chunk, layer_count, 28);
OFFSET(kvf_chunk, fence_kind, 32);
OFFSET(kvf_chunk, fence_fd, 36);
OFFSET(kvf_chunk, fence, 40);

SIZE(kvf_report, 408);
OFFSET(kvf_report, struct_size, 0);
OFFSET(kvf_report, state, 4);
OFFSET(kvf_report, flags, 8);
OFFSET(kvf_report, code, 12);
OFFSET(kvf_report, room_id, 16);
OFFSET(kvf_report, peer_instance, 24);
OFFSET(kvf_report, bytes, 32);
OFFSET(kvf_report, segments, 40);
OFFSET(kvf_report, prefix_tokens, 48);
OFFSET(kvf_report, opened_ns, 56);
OFFSET(kvf_report, waiting_ns, 64);
OFFSET(kvf_report, queued_ns, 72);
OFFSET(kvf_report, posted_ns, 80);
OFFSET(kvf_report, landed_ns, 88);
OFFSET(kvf_report, ended_ns, 96);
OFFSET(kvf_report, quiesced_ns, 104);
OFFSET(kvf_report, rank, 112);
OFFSET(kvf_report, reserved, 116);
OFFSET(kvf_report, transport, 120);
OFFSET(kvf_report, message, 152);

SIZE(kvf_event, 32);
OFFSET(kvf_event, kind, 0);
OFFSET(kvf_event, state, 4);
OFFSET(kvf_event, flags, 8);
OFFSET(kvf_event, code, 12);
OFFSET(kvf_event, room, 16);
OFFSET(kvf_event, room_id, 24);

SIZE(kvf_bootstrap_config, 16);
OFFSET(kvf_bootstrap_config, struct_size, 0);
OFFSET(kvf_bootstrap_config, max_rooms, 4);
OFFSET(kvf_bootstrap_config, listen, 8);

SIZE(kvf_config_entry, 184);
OFFSET(kvf_config_entry, name, 0);
OFFSET(kvf_config_entry, default_value, 8);
OFFSET(kvf_config_entry, description, 16);
OFFSET(kvf_config_entry, value, 24);
OFFSET(kvf_config_entry, source, 144);

SIZE(kvf_plugin_info, 696);
OFFSET(kvf_plugin_info, name, 0);
OFFSET(kvf_plugin_info, path, 32);
OFFSET(kvf_plugin_info, description, 288);
OFFSET(kvf_plugin_info, refused, 416);
OFFSET(kvf_plugin_info, capabilities, 672);
OFFSET(kvf_plugin_info, kind, 680);
OFFSET(kvf_plugin_info, abi_major, 684);
OFFSET(kvf_plugin_info, abi_minor, 688);
OFFSET(kvf_plugin_info, reserved, 692);

SIZE(kvf_counter, 16);
OFFSET(kvf_counter, name, 0);
OFFSET(kvf_counter, value, 8);

/* plugin.h */

SIZE(kvf_host, 48);
OFFSET(kvf_host, struct_size, 0);
OFFSET(kvf_host, abi_major, 4);
OFFSET(kvf_host, abi_minor, 8);
OFFSET(kvf_host, reserved, 12);
OFFSET(kvf_host, log, 16);
OFFSET(kvf_host, fail, 24);
OFFSET(kvf_host, config, 32);
OFFSET(kvf_host, memory_kind, 40);

SIZE(kvf_open_params, 40);
OFFSET(kvf_open_params, struct_size, 0);
OFFSET(kvf_open_params, reserved, 4);
OFFSET(kvf_open_params, instance_id, 8);
OFFSET(kvf_open_params, options, 16);
OFFSET(kvf_open_params, inner, 24);
OFFSET(kvf_open_params, inner_options, 32);

SIZE(kvf_region_params, 40);
OFFSET(kvf_region_params, struct_size, 0);
OFFSET(kvf_region_params, memory_kind, 4);
OFFSET(kvf_region_params, device, 8);
OFFSET(kvf_region_params, fd, 12);
OFFSET(kvf_region_params, base, 16);
OFFSET(kvf_region_params, length, 24);
OFFSET(kvf_region_params, fd_offset, 32);

SIZE(kvf_peer_params, 32);
OFFSET(kvf_peer_params, struct_size, 0);
OFFSET(kvf_peer_params, address_size, 4);
OFFSET(kvf_peer_params, address, 8);
OFFSET(kvf_peer_params, instance_id, 16);
OFFSET(kvf_peer_params, name, 24);

SIZE(kvf_segment, 64);
OFFSET(kvf_segment, local, 0);
OFFSET(kvf_segment, remote, 8);
OFFSET(kvf_segment, local_offset, 16);
OFFSET(kvf_segment, remote_offset, 24);
OFFSET(kvf_segment, length, 32);
OFFSET(kvf_segment, count, 40);
OFFSET(kvf_segment, local_stride, 48);
OFFSET(kvf_segment, remote_stride, 56);

SIZE(kvf_completion, 32);
OFFSET(kvf_completion, token, 0);
OFFSET(kvf_completion, status, 8);
OFFSET(kvf_completion, reserved, 12);
OFFSET(kvf_completion, bytes, 16);
OFFSET(kvf_completion, message, 24);

SIZE(kvf_transport_ops, 184);
OFFSET(kvf_transport_ops, struct_size, 0);
OFFSET(kvf_transport_ops, reserved, 4);
OFFSET(kvf_transport_ops, open, 8);
OFFSET(kvf_transport_ops, close, 16);
OFFSET(kvf_transport_ops, address, 24);
OFFSET(kvf_transport_ops, register_region, 32);
OFFSET(kvf_transport_ops, deregister_region, 40);
OFFSET(kvf_transport_ops, export_key, 48);
OFFSET(kvf_transport_ops, peer_create, 56);
OFFSET(kvf_transport_ops, peer_connect, 64);
OFFSET(kvf_transport_ops, peer_destroy, 72);
OFFSET(kvf_transport_ops, import_key, 80);
OFFSET(kvf_transport_ops, release_key, 88);
OFFSET(kvf_transport_ops, lane_open, 96);
OFFSET(kvf_transport_ops, lane_close, 104);
OFFSET(kvf_transport_ops, post, 112);
OFFSET(kvf_transport_ops, poll, 120);
OFFSET(kvf_transport_ops, peer_export, 128);
OFFSET(kvf_transport_ops, wait, 136);
OFFSET(kvf_transport_ops, event_fd, 144);
OFFSET(kvf_transport_ops, arm, 152);
OFFSET(kvf_transport_ops, cancel, 160);
OFFSET(kvf_transport_ops, fence, 168);
OFFSET(kvf_transport_ops, counters, 176);

SIZE(kvf_plugin, 48);
OFFSET(kvf_plugin, struct_size, 0);
OFFSET(kvf_plugin, abi_major, 4);
OFFSET(kvf_plugin, abi_minor, 8);
OFFSET(kvf_plugin, kind, 12);
OFFSET(kvf_plugin, name, 16);
OFFSET(kvf_plugin, description, 24);
OFFSET(kvf_plugin, capabilities, 32);
OFFSET(kvf_plugin, ops, 40);

/* The states are SGLang's KVPoll, ordered so that a minimum over ranks is the state of the group. */
VALUE(KVF_STATE_FAILED, 0);
VALUE(KVF_STATE_BOOTSTRAPPING, 1);
VALUE(KVF_STATE_WAITING, 2);
VALUE(KVF_STATE_TRANSFERRING, 3);
VALUE(KVF_STATE_SUCCESS, 4);
VALUE(KVF_ROOM_QUIESCED, 1);
VALUE(KVF_POLL_STALE, 0xffffffffu);

/* Each class of status keeps to its range, which is how a caller tells what broke. */
VALUE(KVF_OK, 0);
VALUE(KVF_ERR_INVALID, -1);
VALUE(KVF_ERR_STALE, -20);
VALUE(KVF_ERR_BOOTSTRAP, -40);
VALUE(KVF_ERR_NO_TRANSPORT, -60);
VALUE(KVF_ERR_NO_MEMORY, -80);

/* The bits of kvf_plugin.capabilities. */
VALUE(KVF_CAP_WRITE, 1);
VALUE(KVF_CAP_READ, 2);
VALUE(KVF_CAP_STRIDED, 4);
VALUE(KVF_CAP_CANCEL, 8);
VALUE(KVF_CAP_FENCE, 16);
VALUE(KVF_CAP_WAIT, 32);
VALUE(KVF_CAP_EVENT_FD, 64);
VALUE(KVF_CAP_SAME_HOST, 128);
