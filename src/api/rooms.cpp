// Rooms: what callers pass in is checked and copied here.
#include "api/boundary.h"
#include "control/codec.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <vector>

using kvf::RoomHandle;
using kvf::RoomWord;
using kvf::Status;

namespace {

constexpr uint32_t kMostReceivers = 64;

// Copies index lists and checks every index against what is registered.
Status read_lists(const kvf::Engine &engine, const kvf_index_list *lists, size_t count, size_t stride,
                  std::vector<kvf::PageList> *out) {
    Status status = kvf::check_array(lists, count, stride, sizeof(kvf_index_list), "lists");
    if (!status.ok())
        return status;
    const kvf::GroupLimits *limits = engine.limits();
    if (count > kvf::kMostGroups)
        return kvf::fail(KVF_ERR_INVALID, "%zu lists; expected at most %zu", count, kvf::kMostGroups);
    out->reserve(count);
    for (size_t i = 0; i < count; ++i) {
        kvf_index_list list;
        status = kvf::read_element(lists, stride, i, "kvf_index_list", &list);
        if (!status.ok())
            return status;
        if (list.count != 0 && !list.indices)
            return kvf::fail(KVF_ERR_INVALID, "list %zu, of group %u: indices is NULL and count %u", i, list.group,
                             list.count);
        const kvf::GroupLimit *limit = limits ? limits->find(list.group) : nullptr;
        if (!limit)
            return kvf::fail(KVF_ERR_GROUP, "list %zu is of group %u, of which no tensor is registered", i, list.group);
        for (const kvf::PageList &earlier : *out)
            if (earlier.group == list.group)
                return kvf::fail(KVF_ERR_DUPLICATE, "list %zu is of group %u, as is an earlier one", i, list.group);
        // Checked in the copy: the caller's list may change under our hands.
        std::vector<uint32_t> pages(list.indices, list.indices + list.count);
        uint32_t highest = 0;
        for (const uint32_t page : pages)
            highest = std::max(highest, page);
        if (!pages.empty() && highest >= limit->pages)
            return kvf::fail(KVF_ERR_PAGE,
                             "page %u of group %u, at %td in its list, is outside %s, which has %llu pages", highest,
                             list.group, std::find(pages.begin(), pages.end(), highest) - pages.begin(),
                             kvf::describe(limit->smallest).c_str(), static_cast<unsigned long long>(limit->pages));
        out->push_back({list.group, std::move(pages)});
    }
    return {};
}

// Each group of a chunk has to be in its layers.
Status check_layers(const kvf::Engine &engine, const kvf_chunk &chunk, const std::vector<kvf::PageList> &lists) {
    const kvf::GroupLimits *limits = engine.limits();
    for (const kvf::PageList &list : lists)
        if (!limits->find(list.group)->has_layer(chunk.layer_begin, chunk.layer_count))
            return kvf::fail(KVF_ERR_GROUP, "kvf_chunk: group %u has no tensor in layers [%u, %llu)", list.group,
                             chunk.layer_begin, static_cast<unsigned long long>(chunk.layer_begin) + chunk.layer_count);
    return {};
}

Status read_fence(const kvf_chunk &chunk, kvf::OwnedFd *out) {
    if (chunk.fence)
        return kvf::fail(KVF_ERR_UNSUPPORTED, "kvf_chunk: fence is %p; expected NULL with fence_kind %u", chunk.fence,
                         chunk.fence_kind);
    if (chunk.fence_kind == KVF_FENCE_NONE && chunk.fence_fd != 0 && chunk.fence_fd != -1)
        return kvf::fail(KVF_ERR_INVALID, "kvf_chunk: fence_fd is %d and fence_kind KVF_FENCE_NONE; expected 0 or -1",
                         chunk.fence_fd);
    if (chunk.fence_kind == KVF_FENCE_NONE)
        return {};
    if (chunk.fence_kind != KVF_FENCE_EVENTFD)
        return kvf::fail(KVF_ERR_UNSUPPORTED,
                         "kvf_chunk: fence_kind is %u; expected KVF_FENCE_NONE (0) or KVF_FENCE_EVENTFD "
                         "(1)",
                         chunk.fence_kind);
    const int copy = fcntl(chunk.fence_fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) {
        const int error = errno;
        return kvf::fail(error == EBADF ? KVF_ERR_INVALID : KVF_ERR_SYSTEM, "kvf_chunk: fence_fd is %d: %s",
                         chunk.fence_fd, kvf::fail_system(error, "duplicating it").sentence().c_str());
    }
    *out = kvf::OwnedFd(copy);
    return {};
}

kvf_room_status status_of(RoomWord word) {
    return {sizeof(kvf_room_status), word.state(), word.flags(), word.code()};
}

} // namespace

int kvf_room_open_sender(kvf_engine *engine, uint64_t room_id, const kvf_sender_options *options, kvf_room *room) {
    return kvf::on_engine(engine, [&](kvf::Engine &known) -> Status {
        kvf_sender_options read;
        Status status = kvf::read_optional(options, "kvf_sender_options", &read);
        if (status.ok())
            status = kvf::check_not_null(room, "room");
        if (status.ok() && read.receivers > kMostReceivers)
            status = kvf::fail(KVF_ERR_INVALID, "receivers is %u; expected at most %u", read.receivers, kMostReceivers);
        if (status.ok() && read.priority != 0)
            status = kvf::fail(KVF_ERR_UNSUPPORTED, "priority is %u; expected 0", read.priority);
        RoomHandle handle;
        if (status.ok())
            status = known.open_sender(room_id, read, &handle);
        if (status.ok())
            room->value = handle.value;
        return status;
    });
}

int kvf_room_open_receiver(kvf_engine *engine, const char *prefill, uint64_t room_id,
                           const kvf_receiver_options *options, kvf_room *room) {
    return kvf::on_engine(engine, [&](kvf::Engine &known) -> Status {
        kvf_receiver_options read;
        Status status = kvf::read_optional(options, "kvf_receiver_options", &read);
        if (status.ok())
            status = kvf::check_not_null(room, "room");
        if (status.ok() && (!prefill || *prefill == '\0'))
            status = kvf::fail(KVF_ERR_INVALID,
                               "prefill is %s; expected the \"host:port\" of a bootstrap server or an "
                               "engine's control address",
                               prefill ? "empty" : "NULL");
        if (status.ok() && read.dp_choice > KVF_DP_ASK)
            status = kvf::fail(KVF_ERR_INVALID, "dp_choice is %u; expected at most KVF_DP_ASK (%d)", read.dp_choice,
                               KVF_DP_ASK);
        if (status.ok() && (read.priority != 0 || read.reserved != 0))
            status = kvf::fail(KVF_ERR_UNSUPPORTED, "priority is %u and reserved %u; expected 0", read.priority,
                               read.reserved);
        RoomHandle handle;
        if (status.ok())
            status = known.open_receiver(room_id, prefill, read, &handle);
        if (status.ok())
            room->value = handle.value;
        return status;
    });
}

int kvf_room_accept(kvf_engine *engine, kvf_room room, const kvf_index_list *lists, size_t count, size_t stride) {
    return kvf::on_engine(engine, [&](kvf::Engine &known) -> Status {
        std::vector<kvf::PageList> read;
        Status status = read_lists(known, lists, count, stride, &read);
        if (!status.ok())
            return status;
        std::vector<kvf::PageRuns> runs;
        runs.reserve(read.size());
        for (const kvf::PageList &list : read)
            runs.emplace_back(list.group, list.pages);
        return known.accept({room.value}, std::move(runs));
    });
}

int kvf_room_send(kvf_engine *engine, kvf_room room, const kvf_chunk *chunk) {
    return kvf::on_engine(engine, [&](kvf::Engine &known) -> Status {
        kvf_chunk read;
        Status status = kvf::read_struct(chunk, "kvf_chunk", &read);
        if (status.ok() && (read.flags & ~uint32_t{KVF_CHUNK_LAST}) != 0)
            status = kvf::fail(KVF_ERR_UNSUPPORTED, "kvf_chunk: flags is 0x%x; expected KVF_CHUNK_LAST (0x1) or 0",
                               read.flags);
        auto made = std::make_unique<kvf::Chunk>();
        if (status.ok())
            status = read_lists(known, read.lists, read.list_count, read.list_stride, &made->lists);
        if (status.ok())
            status = check_layers(known, read, made->lists);
        if (status.ok())
            status = read_fence(read, &made->fence);
        if (!status.ok())
            return status;
        made->layer_begin = read.layer_begin;
        made->layer_count = read.layer_count;
        made->last = (read.flags & KVF_CHUNK_LAST) != 0;
        return known.send({room.value}, std::move(made));
    });
}

int kvf_room_poll(kvf_engine *engine, kvf_room room, kvf_room_status *status) {
    if (engine && engine->forks == kvf::forks() && status && status->struct_size >= sizeof *status &&
        status->struct_size <= kvf::kMaxStruct) [[likely]] {
        RoomWord word;
        if (engine->rooms->load({room.value}, &word) == KVF_OK) [[likely]] {
            status->state = word.state();
            status->flags = word.flags();
            status->code = word.code();
            return KVF_OK;
        }
    }
    return kvf::on_engine(engine, [&](kvf::Engine &known) -> Status {
        Status there = kvf::check_not_null(status, "status");
        if (!there.ok())
            return there;
        RoomWord word;
        const int code = known.rooms().load({room.value}, &word);
        if (code != KVF_OK)
            return known.rooms().refuse({room.value}, code);
        return kvf::write_struct(status_of(word), "kvf_room_status", status);
    });
}

int kvf_room_poll_many(kvf_engine *engine, const kvf_room *rooms, uint32_t *states, size_t count) {
    return kvf::on_engine(engine, [&](kvf::Engine &known) -> Status {
        if (count != 0 && (!rooms || !states))
            return kvf::fail(KVF_ERR_INVALID, "%s is NULL and count %zu", rooms ? "states" : "rooms", count);
        Status first;
        for (size_t i = 0; i < count; ++i) {
            RoomWord word;
            const int code = known.rooms().load({rooms[i].value}, &word);
            if (code == KVF_OK) {
                states[i] = uint32_t{word.flags()} << 8 | word.state();
                continue;
            }
            states[i] = KVF_POLL_STALE;
            if (first.ok())
                first = {KVF_ERR_STALE, known.rooms().refuse({rooms[i].value}, code).sentence()};
        }
        return first;
    });
}

int kvf_room_wait(kvf_engine *engine, kvf_room room, uint32_t timeout_ms, kvf_room_status *status) {
    return kvf::on_engine(engine, [&](kvf::Engine &known) -> Status {
        // Before the wait: who can't be told its outcome should not have to sit through it.
        if (status) {
            Status fits = kvf::check_struct(status, "kvf_room_status");
            if (!fits.ok())
                return fits;
        }
        RoomWord word;
        Status waited = known.wait({room.value}, timeout_ms, &word);
        if (!status || (!waited.ok() && waited.code() != KVF_ERR_TIMEOUT))
            return waited;
        Status written = kvf::write_struct(status_of(word), "kvf_room_status", status);
        return written.ok() ? waited : written;
    });
}

int kvf_room_abort(kvf_engine *engine, kvf_room room, const char *reason) {
    return kvf::on_engine(engine, [&](kvf::Engine &known) {
        const std::string given(reason ? reason : "aborted by its caller", reason ? strnlen(reason, 255) : 21);
        return known.abort({room.value}, kvf::clean_text(given, 255));
    });
}

int kvf_room_close(kvf_engine *engine, kvf_room room) {
    return kvf::on_engine(engine, [&](kvf::Engine &known) { return known.close({room.value}); });
}

int kvf_room_close_deferred(kvf_engine *engine, kvf_room room) {
    return kvf::on_engine(engine, [&](kvf::Engine &known) { return known.close_deferred({room.value}); });
}

int kvf_room_report(kvf_engine *engine, kvf_room room, kvf_report *report) {
    return kvf::on_engine(engine, [&](kvf::Engine &known) -> Status {
        Status there = kvf::check_not_null(report, "report");
        if (!there.ok())
            return there;
        kvf_report known_report;
        const int code = known.rooms().report({room.value}, &known_report);
        if (code != KVF_OK)
            return known.rooms().refuse({room.value}, code);
        return kvf::write_struct(known_report, "kvf_report", report);
    });
}
