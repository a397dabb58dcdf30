// Instances and lanes: options, statuses with the plugin's sentence, blobs of any size, and a transfer through all of
// it.
#include "plugin/transport.h"

#include "plugin/host.h"
#include "plugin/lane.h"
#include "plugin_fixtures.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace kvf {
namespace {

class TransportTest : public PluginTest {
  protected:
    void SetUp() override { search(fixtures("good")); }

    static std::shared_ptr<Transport> opened(const std::string &name, const std::string &options, uint64_t id = 1) {
        std::shared_ptr<Transport> transport;
        const Status status = Transport::open(name, options, id, &transport);
        EXPECT_TRUE(status.ok()) << status.sentence();
        return transport;
    }

    static Status refused(const std::string &name, const std::string &options) {
        std::shared_ptr<Transport> transport;
        Status status = Transport::open(name, options, 1, &transport);
        EXPECT_EQ(transport, nullptr);
        return status;
    }
};

TEST_F(TransportTest, names_that_make_no_transport_are_refused) {
    EXPECT_EQ(refused("", "").code(), KVF_ERR_INVALID);
    EXPECT_EQ(refused("fault+", "").code(), KVF_ERR_INVALID);
    EXPECT_EQ(refused("fault", "").sentence(), "fault is a decorator; name the transport below it, as in fault+shm");
    EXPECT_EQ(refused("memory+fault", "").sentence(), "memory is not a decorator, so memory+fault can't be");
    EXPECT_EQ(refused("fault+fault", "").sentence(), "fault is not a transport, so fault+fault can't be");
    EXPECT_EQ(refused("fault+fault+memory", "").code(), KVF_ERR_UNSUPPORTED);
    EXPECT_EQ(refused("absent", "").code(), KVF_ERR_NO_TRANSPORT);
    EXPECT_EQ(refused("fault+absent", "").code(), KVF_ERR_NO_TRANSPORT);
}

TEST_F(TransportTest, a_refusal_to_open_carries_the_name_and_the_sentence) {
    const Status status = refused("memory", "mistake=1");
    EXPECT_EQ(status.code(), KVF_ERR_OPTION);
    EXPECT_EQ(status.sentence(), "memory: the fixture has no \"mistake\"");
    EXPECT_EQ(refused("memory", "depth").sentence(), "memory: option \"depth\" is not of the form key=value");
}

TEST_F(TransportTest, a_failure_without_a_sentence_has_the_text_of_its_status) {
    plugin_host()->fail("a leftover of another call");
    EXPECT_EQ(refused("memory", "mute=1").sentence(), "memory: system call failed");
}

TEST_F(TransportTest, options_are_divided_between_decorator_and_transport) {
    EXPECT_EQ(refused("fault+memory", "memory.mistake=1").sentence(), "fault+memory: the fixture has no \"mistake\"");
    EXPECT_EQ(refused("fault+memory", "mistake=1").sentence(), "fault+memory: option \"mistake\" is not known");
    EXPECT_EQ(refused("fault+memory", "other.depth=1").sentence(), "fault+memory: option \"other.depth\" is not known");
    const auto transport = opened("fault+memory", "seed=3,memory.depth=2,fail=0.5");
    EXPECT_EQ(transport->name(), "fault+memory");
}

TEST_F(TransportTest, a_decorated_transport_can_do_what_both_can) {
    EXPECT_EQ(opened("fault+shorter", "")->capabilities(), uint64_t{KVF_CAP_WRITE | KVF_CAP_READ | KVF_CAP_SAME_HOST});
    EXPECT_EQ(opened("fault+modest", "")->capabilities(), uint64_t{KVF_CAP_WRITE});
    EXPECT_TRUE(opened("fault+memory", "")->can(KVF_CAP_FENCE | KVF_CAP_CANCEL | KVF_CAP_EVENT_FD));
    EXPECT_FALSE(opened("fault+memory", "")->can(KVF_CAP_STRIDED));
}

TEST_F(TransportTest, a_blob_of_any_size_is_read_whole_and_an_endless_one_refused) {
    Blob blob;
    for (const size_t size : {size_t{8}, size_t{512}, size_t{513}, size_t{1} << 20}) {
        const auto transport = opened("memory", "blob=" + std::to_string(size));
        ASSERT_TRUE(transport->address(&blob).ok());
        EXPECT_EQ(blob.size(), size);
    }
    const auto transport = opened("memory", "blob=99999999");
    EXPECT_EQ(transport->address(&blob).code(), KVF_ERR_TRANSPORT);
    EXPECT_TRUE(blob.empty());
}

TEST_F(TransportTest, a_transport_without_optional_operations_says_so) {
    const auto transport = opened("shorter", "");
    Blob blob{1, 2, 3};
    ASSERT_TRUE(transport->address(&blob).ok());
    kvf_peer *peer = nullptr;
    ASSERT_TRUE(transport->peer_create(blob, 1, "self", &peer).ok());
    EXPECT_TRUE(transport->peer_export(peer, &blob).ok());
    EXPECT_TRUE(blob.empty());
    EXPECT_EQ(transport->fence(peer).code(), KVF_ERR_UNSUPPORTED);
    EXPECT_EQ(transport->fence(peer).sentence(), "shorter: has no fence");
    transport->peer_destroy(peer);
    EXPECT_TRUE(transport->counters().empty());
    std::unique_ptr<Lane> lane;
    ASSERT_TRUE(Lane::open(transport, 0, &lane).ok());
    EXPECT_EQ(lane->event_fd(), -1);
    EXPECT_EQ(lane->arm(), KVF_OK);
    EXPECT_FALSE(lane->cancel(1));
}

TEST_F(TransportTest, failures_of_peers_and_keys_carry_their_sentences) {
    const auto transport = opened("memory", "");
    kvf_peer *peer = nullptr;
    EXPECT_EQ(transport->peer_create(Blob{1}, 2, "p", &peer).sentence(), "memory: an address of too few bytes");
    Blob address;
    ASSERT_TRUE(transport->address(&address).ok());
    ASSERT_TRUE(transport->peer_create(address, 2, "p", &peer).ok());
    const Status status = transport->peer_connect(peer, Blob(8, 0xff));
    EXPECT_EQ(status.code(), KVF_ERR_UNREACHABLE);
    EXPECT_EQ(status.sentence(), "memory: another instance answered");
    EXPECT_TRUE(transport->peer_connect(peer, {}).ok());
    kvf_remote *remote = nullptr;
    EXPECT_EQ(transport->import_key(peer, {}, &remote).sentence(), "memory: a key of too few bytes");
    transport->peer_destroy(peer);
}

// Both sides, with all that is between a handshake and the end of a transfer.
TEST_F(TransportTest, bytes_move_from_one_instance_to_another) {
    for (const char *name : {"memory", "newer", "shorter", "fault+memory", "fault+shorter"}) {
        SCOPED_TRACE(name);
        std::array<char, 64> from{}, to{};
        std::ranges::fill(from, 'x');
        const auto ours = opened(name, "", 1);
        const auto theirs = opened(name, "", 2);
        kvf_region_params params{};
        params.fd = -1;
        params.length = from.size();
        kvf_region *source = nullptr;
        kvf_region *target = nullptr;
        params.base = from.data();
        ASSERT_TRUE(ours->register_region(params, &source).ok());
        params.base = to.data();
        ASSERT_TRUE(theirs->register_region(params, &target).ok());
        Blob address;
        Blob key;
        Blob proof;
        ASSERT_TRUE(theirs->address(&address).ok());
        ASSERT_TRUE(theirs->export_key(target, &key).ok());
        kvf_peer *peer = nullptr;
        ASSERT_TRUE(ours->peer_create(address, 2, "theirs", &peer).ok());
        ASSERT_TRUE(ours->peer_export(peer, &proof).ok());
        ASSERT_TRUE(ours->peer_connect(peer, {}).ok());
        kvf_remote *remote = nullptr;
        ASSERT_TRUE(ours->import_key(peer, key, &remote).ok());
        std::unique_ptr<Lane> lane;
        ASSERT_TRUE(Lane::open(ours, 0, &lane).ok());

        const kvf_segment segment{source, remote, 8, 16, 32, 1, 0, 0};
        uint32_t accepted = 0;
        ASSERT_EQ(lane->post(peer, KVF_OP_WRITE, &segment, 1, 77, &accepted), KVF_OK);
        EXPECT_EQ(accepted, 1U);
        kvf_completion done{};
        while (lane->poll(&done, 1) == 0) {
        }
        EXPECT_EQ(done.token, 77U);
        EXPECT_EQ(done.status, KVF_OK);
        EXPECT_EQ(std::string(to.data() + 16, 32), std::string(32, 'x'));
        EXPECT_EQ(to[15], 0);
        EXPECT_EQ(to[48], 0);

        const kvf_segment outside{source, remote, 8, 60, 32, 1, 0, 0};
        accepted = 5;
        EXPECT_EQ(lane->post(peer, KVF_OP_WRITE, &outside, 1, 78, &accepted), KVF_ERR_RANGE);
        EXPECT_EQ(accepted, 0U);
        EXPECT_EQ(take_plugin_sentence(), "a segment leaves its region");

        lane.reset();
        ours->release_key(peer, remote);
        ours->peer_destroy(peer);
        ours->deregister_region(source);
        theirs->deregister_region(target);
    }
}

TEST_F(TransportTest, counters_of_the_whole_chain_are_listed) {
    const auto transport = opened("fault+memory", "");
    const std::vector<kvf_counter> counters = transport->counters();
    ASSERT_FALSE(counters.empty());
    EXPECT_STREQ(counters[0].name, "open_objects");
    EXPECT_TRUE(
        std::ranges::any_of(counters, [](const auto &it) { return std::strcmp(it.name, "fault_failed") == 0; }));
}

} // namespace
} // namespace kvf
