// Rooms on their way to a peer: bootstrap servers that are away, addresses, and rooms that give up before they have
// one.
#include "base/log.h"
#include "control_harness.h"

namespace kvf::test {
namespace {

using Seeking = ControlTest;

const Cause kEnough{KVF_ERR_ABORTED, 2, "enough"};

TEST_F(Seeking, a_room_that_gave_up_between_two_dials_is_told_at_the_next) {
    prefill = nullptr;
    decode->load("fake");
    decode->set_tensors({plain_tensor(0, 0, 10)});
    decode->seek(1, "tcp://10.0.0.1:1000");
    net.settle();
    ASSERT_EQ(decode->counter(ControlCounter::connections_failed), 1u);
    decode->control().handle(ForgetPeer{RoomHandle{1}, 1, kEnough});
    prefill = std::make_unique<Node>(net, prefill_config(1), "tcp://10.0.0.1:1000");
    net.advance_ms(3000);
    const auto abort = prefill->take<AbortCame>();
    EXPECT_EQ(abort.room_id, 1u);
    EXPECT_EQ(abort.receiver, 1u);
    EXPECT_FALSE(abort.offered);
    EXPECT_EQ(abort.cause.sentence, "enough");
    EXPECT_EQ(decode->counter(ControlCounter::open_seeks), 0u);
    EXPECT_EQ(prefill->count<AbortCame>(), 0u);
}

TEST_F(Seeking, a_room_that_gave_up_is_not_dialed_for_without_end) {
    prefill = nullptr;
    decode->seek(1, "tcp://10.0.0.1:1000");
    net.settle();
    decode->control().handle(ForgetPeer{RoomHandle{1}, 1, kEnough});
    EXPECT_EQ(decode->counter(ControlCounter::open_seeks), 0u);
    net.advance_ms(9'000);
    EXPECT_EQ(decode->counter(ControlCounter::unsent_aborts), 1u);
    net.advance_ms(4'000);
    EXPECT_EQ(decode->counter(ControlCounter::unsent_aborts), 0u);
    const uint64_t dialed = decode->counter(ControlCounter::connections_dialed);
    net.advance_ms(10'000);
    EXPECT_EQ(decode->counter(ControlCounter::connections_dialed), dialed);
    EXPECT_EQ(decode->count<PeerRefused>(), 0u);
}

// The abort would be taken for the new room's.
TEST_F(Seeking, a_room_that_gave_up_is_not_told_of_once_its_id_is_in_use_again) {
    prefill = nullptr;
    decode->load("fake");
    decode->set_tensors({plain_tensor(0, 0, 10)});
    decode->seek(1, "tcp://10.0.0.1:1000");
    net.settle();
    decode->control().handle(ForgetPeer{RoomHandle{1}, 1, kEnough});
    decode->control().handle(SeekPeer{RoomHandle{2}, 1, Target{"tcp://10.0.0.1:1000", KVF_DP_BY_ROOM, 0}});
    prefill = std::make_unique<Node>(net, prefill_config(1), "tcp://10.0.0.1:1000");
    prefill->load("fake");
    prefill->set_tensors({plain_tensor(0, 0, 10)});
    net.advance_ms(3000);
    EXPECT_EQ(decode->take<PeerFound>().room.value, 2u);
    EXPECT_EQ(prefill->count<AbortCame>(), 0u);
}

TEST_F(Seeking, rooms_that_gave_up_are_bounded_in_number) {
    prefill = nullptr;
    for (uint64_t room = 1; room <= 5000; ++room) {
        decode->seek(room, "tcp://10.0.0.1:1000");
        decode->control().handle(ForgetPeer{RoomHandle{room}, room, kEnough});
    }
    EXPECT_EQ(decode->counter(ControlCounter::unsent_aborts), 1024u);
    // Those that can be told at once are.
    prefill = std::make_unique<Node>(net, prefill_config(1), "tcp://10.0.0.2:1000");
    decode->seek(9000, prefill->address());
    net.settle();
    decode->control().handle(ForgetPeer{RoomHandle{9000}, 9000, kEnough});
    net.settle();
    EXPECT_EQ(prefill->take<AbortCame>().room_id, 9000u);
}

TEST_F(Seeking, the_answer_to_a_room_names_it) {
    equip();
    decode->control().handle(SeekPeer{RoomHandle{9}, 5, Target{prefill->address(), KVF_DP_BY_ROOM, 0}});
    net.settle();
    EXPECT_EQ(decode->take<PeerFound>().room_id, 5u);
    decode->control().handle(SeekPeer{RoomHandle{10}, 6, Target{prefill->address(), KVF_DP_BY_ROOM, 0}});
    EXPECT_EQ(decode->take<PeerFound>().room_id, 6u);
}

// ---------------------------------------------------------------------------------------------------------- bootstrap

class Bootstrapped : public ControlTest {
  protected:
    Bootstrapped() {
        ControlConfig config = prefill_config(1);
        config.bootstrap = kServer;
        prefill = std::make_unique<Node>(net, config, "tcp://10.0.0.1:1000");
    }
    static constexpr const char *kServer = "10.0.0.9:8998";
};

TEST_F(Bootstrapped, an_engine_registers_with_its_first_tensors) {
    prefill->load("fake");
    net.settle();
    EXPECT_EQ(prefill->registrations, 0);
    prefill->set_tensors({plain_tensor(0, 0, 10)});
    prefill->set_tensors({plain_tensor(0, 0, 10), plain_tensor(0, 1, 10)});
    net.settle();
    EXPECT_EQ(prefill->registrations, 1);
    EXPECT_EQ(net.bootstraps[kServer].ranks.at({}).port, 1000);
}

TEST_F(Bootstrapped, a_failed_registration_is_tried_again) {
    net.bootstraps[kServer].status = fail(KVF_ERR_BOOTSTRAP, "away");
    equip();
    net.advance_ms(3000);
    EXPECT_GE(prefill->registrations, 3);
    net.bootstraps[kServer].status = {};
    net.advance_ms(2000);
    EXPECT_EQ(net.bootstraps[kServer].ranks.size(), 1u);
}

TEST_F(Bootstrapped, rooms_find_their_peer_by_its_server_which_is_asked_once) {
    equip();
    net.settle();
    for (uint64_t room = 1; room <= 50; ++room)
        decode->seek(room, kServer);
    net.settle();
    EXPECT_EQ(decode->count<PeerFound>(), 50u);
    decode->seek(51, kServer);
    EXPECT_EQ(decode->count<PeerFound>(), 51u);
    EXPECT_EQ(decode->topologies, 1);
    EXPECT_EQ(decode->ranks, 1);
}

TEST_F(Bootstrapped, an_address_that_no_other_host_reaches_is_warned_of_where_others_may_ask_for_it) {
    for (const char *address : {"tcp://127.0.0.1:1000", "tcp://10.0.0.1:1000"})
        for (const char *server : {"10.0.0.9:8998", "127.0.0.1:8998", "localhost:8998"}) {
            SCOPED_TRACE(std::string(address) + " with " + server);
            std::vector<std::string> lines;
            log_set([](void *user, int32_t,
                       const char *line) { static_cast<std::vector<std::string> *>(user)->emplace_back(line); },
                    &lines, KVF_LOG_WARN);
            ControlConfig config = prefill_config(7);
            config.bootstrap = server;
            Node node(net, config, address);
            node.load("fake");
            for (int time = 0; time < 2; ++time)
                node.set_tensors({plain_tensor(0, 0, 10)});
            net.settle();
            log_set(nullptr, nullptr, 0);
            const bool warned =
                std::string(address).find("127") != std::string::npos && server[0] == '1' && server[1] == '0';
            ASSERT_EQ(lines.size(), warned ? 1u : 0u);
            if (warned) {
                EXPECT_EQ(lines[0],
                          "prefill-7: registers 127.0.0.1 with 10.0.0.9:8998, but no other host reaches that "
                          "address (see KVF_LISTEN)");
            }
        }
}

TEST_F(Bootstrapped, who_does_not_answer_is_warned_of_once_until_it_did) {
    std::vector<std::string> lines;
    equip();
    net.settle();
    net.bootstraps[kServer].status = fail(KVF_ERR_BOOTSTRAP, "away");
    log_set([](void *user, int32_t,
               const char *line) { static_cast<std::vector<std::string> *>(user)->emplace_back(line); },
            &lines, KVF_LOG_WARN);
    decode->seek(1, kServer);
    decode->seek(2, kServer);
    decode->seek(3, "tcp://nobody:1");
    net.advance_ms(5000);
    decode->seek(4, "tcp://nobody:1");
    net.advance_ms(5000);
    EXPECT_EQ(lines.size(), 2u) << testing::PrintToString(lines);
    EXPECT_EQ(std::count(lines.begin(), lines.end(),
                         "decode-2: no prefill engine found yet by " + std::string(kServer) + ", trying again: away"),
              1);
    EXPECT_EQ(
        std::count_if(lines.begin(), lines.end(),
                      [](const std::string &line) {
                          return line.starts_with("decode-2: no engine reached yet at tcp://nobody:1, trying again: ");
                      }),
        1);
    lines.clear();
    net.bootstraps[kServer].status = {};
    net.advance_ms(5000);
    EXPECT_EQ(decode->count<PeerFound>(), 2u);
    log_set(nullptr, nullptr, 0);
    EXPECT_EQ(lines.size(), 0u) << testing::PrintToString(lines);
}

TEST_F(Bootstrapped, a_server_that_is_away_is_asked_again_and_each_reason_is_told_once) {
    equip();
    net.settle();
    net.bootstraps[kServer].status = fail(KVF_ERR_BOOTSTRAP, "away");
    decode->seek(1, kServer);
    net.advance_ms(5000);
    EXPECT_EQ(decode->count<PeerDelayed>(), 1u);
    EXPECT_EQ(decode->take<PeerDelayed>().why, "away");
    EXPECT_LE(decode->topologies, 6);
    net.bootstraps[kServer].status = fail(KVF_ERR_AGAIN, "1 of 2 ranks");
    net.advance_ms(3000);
    EXPECT_EQ(decode->take<PeerDelayed>().why, "1 of 2 ranks");
    net.bootstraps[kServer].status = {};
    net.advance_ms(2500);
    EXPECT_EQ(decode->count<PeerFound>(), 1u);
}

TEST_F(Bootstrapped, nobody_asks_when_nobody_waits) {
    net.bootstraps[kServer].status = fail(KVF_ERR_BOOTSTRAP, "away");
    decode->seek(1, kServer);
    net.settle();
    decode->control().handle(ForgetPeer{RoomHandle{1}, 1, {}, false});
    const int asked = decode->topologies;
    net.advance_ms(10'000);
    EXPECT_EQ(decode->topologies, asked);
}

TEST_F(Bootstrapped, a_room_that_gave_up_before_the_server_answered_is_told) {
    equip();
    net.settle();
    net.bootstraps[kServer].status = fail(KVF_ERR_BOOTSTRAP, "away");
    decode->seek(1, kServer);
    net.settle();
    decode->control().handle(ForgetPeer{RoomHandle{1}, 1, {KVF_ERR_ABORTED, 2, "enough"}});
    net.bootstraps[kServer].status = {};
    net.advance_ms(3000);
    EXPECT_EQ(prefill->take<AbortCame>().cause.sentence, "enough");
    EXPECT_EQ(decode->count<PeerFound>(), 0u);
}

TEST_F(Bootstrapped, a_prefill_side_of_another_size_is_refused_with_both_sizes) {
    equip();
    net.settle();
    net.bootstraps[kServer].topology.sizes.tp = 4;
    decode->seek(1, kServer);
    net.settle();
    const auto refused = decode->take<PeerRefused>();
    EXPECT_EQ(refused.cause.code, KVF_ERR_LAYOUT);
    EXPECT_EQ(refused.cause.sentence, "tp_size is 1 at decode-2 and 4 at the prefill side (10.0.0.9:8998)");
    net.bootstraps[kServer].topology.sizes.tp = 1;
    decode->seek(2, kServer);
    net.settle();
    EXPECT_EQ(decode->count<PeerFound>(), 1u);
}

TEST_F(Bootstrapped, dp_ranks_are_by_room_given_or_asked_for) {
    equip();
    Node second(net, prefill_config(4), "tcp://10.0.0.2:1000");
    second.load("fake");
    second.set_tensors({plain_tensor(0, 0, 100), plain_tensor(0, 1, 100)});
    net.settle();
    FakeBootstrap &server = net.bootstraps[kServer];
    server.topology.sizes.dp = 2;
    server.ranks = {{{0, 0, 0, 0}, {"10.0.0.1", 1000}}, {{1, 0, 0, 0}, {"10.0.0.2", 1000}}};
    const auto peer_of = [&](uint64_t room, uint32_t choice, uint32_t rank) {
        decode->seek(room, Target{kServer, choice, rank});
        net.settle();
        const auto answer = decode->take<PeerFound>();
        return answer.link ? answer.link->instance : 0;
    };
    EXPECT_EQ(peer_of(10, KVF_DP_BY_ROOM, 0), 1u);
    EXPECT_EQ(peer_of(11, KVF_DP_BY_ROOM, 0), 4u);
    EXPECT_EQ(peer_of(12, KVF_DP_GIVEN, 1), 4u);
    server.rooms[14] = 1;
    EXPECT_EQ(peer_of(14, KVF_DP_ASK, 0), 4u);
    decode->seek(16, Target{kServer, KVF_DP_ASK, 0});
    net.settle();
    EXPECT_EQ(decode->take<PeerDelayed>().why, "10.0.0.9:8998 was not told which dp rank prefills room 16");
    server.rooms[16] = 0;
    net.advance_ms(1000);
    EXPECT_EQ(decode->take<PeerFound>().link->instance, 1u);
    decode->seek(18, Target{kServer, KVF_DP_GIVEN, 2});
    net.settle();
    EXPECT_EQ(decode->take<PeerRefused>().cause.code, KVF_ERR_INVALID);
    prefill->shards.clear();
    decode->shards.clear();
}

TEST_F(Bootstrapped, a_peer_that_came_back_elsewhere_is_found_there) {
    equip();
    net.settle();
    decode->seek(1, kServer);
    net.settle();
    EXPECT_EQ(decode->count<PeerFound>(), 1u);
    decode->shards.clear();
    prefill->shards.clear();
    prefill.reset();
    net.settle();
    decode->seek(2, kServer);
    net.settle(); // the server does not know yet
    EXPECT_EQ(decode->count<PeerDelayed>(), 1u);
    ControlConfig config = prefill_config(21);
    config.bootstrap = kServer;
    prefill = std::make_unique<Node>(net, config, "tcp://10.0.0.77:1000");
    prefill->load("fake");
    prefill->set_tensors({plain_tensor(0, 0, 100), plain_tensor(0, 1, 100)});
    net.advance_ms(1000);
    EXPECT_EQ(decode->take<PeerFound>().link->instance, 21u);
}

TEST_F(Bootstrapped, what_is_no_address_is_refused) {
    decode->seek(1, "nonsense");
    EXPECT_EQ(decode->take<PeerRefused>().cause.code, KVF_ERR_INVALID);
}

} // namespace
} // namespace kvf::test
