// What is asked of a bootstrap server and what its replies mean. Requests to one server go a few at a time, and the
// dp ranks of many rooms are one request, so a burst of rooms is no burst of connections.
#include "control/bootstrap_client.h"

#include "control/bootstrap_json.h"
#include "control/bootstrap_messages.h"
#include "control/bootstrap_ranks.h"
#include "control/bootstrap_request.h"

#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace kvf {
namespace {

constexpr size_t kConnectionsToServer = 4;
constexpr size_t kRoomsAQuestion = 4096;
constexpr size_t kShownReply = 200;

std::string server_at(const std::string &address) {
    return "bootstrap server " + quotable(address, 255);
}

// KVF_OK for 200.
Status judge(const std::string &address, const HttpReply &reply) {
    if (reply.status == 200)
        return {};
    const std::string said = quotable(reply.body, kShownReply);
    if (reply.status == 503)
        return {KVF_ERR_AGAIN, server_at(address) + ": not all ranks have registered (" + said + ")"};
    return {KVF_ERR_BOOTSTRAP, server_at(address) + " refused with HTTP " + std::to_string(reply.status) + ": " + said};
}

Status not_understood(const std::string &address, const Status &why) {
    return {KVF_ERR_PROTOCOL, server_at(address) + " gave a reply that is not understood: " + why.sentence()};
}

// Reads a reply's body with one of the read functions; the first failure of call, HTTP and JSON.
template <typename Read, typename Out>
Status understand(const std::string &address, const Status &status, const HttpReply &reply, Read read, Out *out) {
    if (!status.ok())
        return status;
    Status judged = judge(address, reply);
    if (!judged.ok())
        return judged;
    Status understood = read(reply.body, out);
    return understood.ok() ? understood : not_understood(address, understood);
}

std::string route_target(const std::string &dp, const std::string &cp, const std::string &tp, const std::string &pp) {
    return "/route?prefill_dp_rank=" + dp + "&prefill_cp_rank=" + cp + "&target_tp_rank=" + tp +
           "&target_pp_rank=" + pp;
}

} // namespace

class BootstrapClient::Calls : public std::enable_shared_from_this<Calls> {
  public:
    Calls(boost::asio::io_context *io, std::chrono::milliseconds deadline) : io_(io), deadline_(deadline) {}

    // call.server is filled in here.
    void call(const std::string &address, HttpCall call, BootstrapRequest::Done done) {
        Status status = parse_host_port("bootstrap server address", address, &call.server);
        if (status.ok() && call.server.port == 0)
            status =
                Status(KVF_ERR_INVALID, "bootstrap server address '" + address + "': expected a port other than 0");
        const uint64_t id = next_id_++;
        auto finished = [this, address, id, done = std::move(done)](const Status &ended, const HttpReply &reply) {
            // Keeps this alive when done destroys the client.
            const auto self = shared_from_this();
            remove(address, id);
            done(ended, reply);
        };
        const auto request = BootstrapRequest::make(io_, std::move(call), deadline_, std::move(finished));
        Server &server = servers_[address];
        server.calls.emplace(id, Call{request});
        if (!status.ok())
            return request->fail_soon(status);
        server.waiting.push_back(id);
        send_more(&server);
    }

    void ask_for_room(const std::string &address, uint64_t room_id, GotDpRank done) {
        Question &question = questions_[address];
        question.waiting.push_back({room_id, std::move(done)});
        if (!question.under_way)
            ask(address);
    }

    void cancel_all() {
        ++epoch_;
        const auto servers = std::move(servers_);
        servers_.clear();
        questions_.clear();
        for (const auto &server : servers) {
            for (const auto &entry : server.second.calls)
                entry.second.request->cancel();
        }
    }

  private:
    struct Call {
        std::shared_ptr<BootstrapRequest> request;
        bool sent = false;
    };

    struct Server {
        std::map<uint64_t, Call> calls; // by id
        std::deque<uint64_t> waiting;
        size_t sent = 0;
    };

    struct AskedRoom {
        uint64_t room_id = 0;
        GotDpRank done;
    };

    struct Question {
        std::deque<AskedRoom> waiting;
        bool under_way = false;
    };

    void send_more(Server *server) {
        while (server->sent < kConnectionsToServer && !server->waiting.empty()) {
            const auto next = server->calls.find(server->waiting.front());
            server->waiting.pop_front();
            if (next == server->calls.end())
                continue; // its deadline passed as it waited
            ++server->sent;
            next->second.sent = true;
            next->second.request->send();
        }
    }

    void remove(const std::string &address, uint64_t id) {
        const auto found = servers_.find(address);
        if (found == servers_.end())
            return;
        Server &server = found->second;
        const auto call = server.calls.find(id);
        if (call->second.sent)
            --server.sent;
        server.calls.erase(call);
        if (server.calls.empty())
            servers_.erase(found);
        else
            send_more(&server);
    }

    void ask(const std::string &address) {
        Question &question = questions_[address];
        std::vector<AskedRoom> rooms;
        std::vector<uint64_t> ids;
        while (!question.waiting.empty() && rooms.size() < kRoomsAQuestion) {
            ids.push_back(question.waiting.front().room_id);
            rooms.push_back(std::move(question.waiting.front()));
            question.waiting.pop_front();
        }
        question.under_way = true;
        auto asked = std::make_shared<std::vector<AskedRoom>>(std::move(rooms));
        call(address, {.server = {}, .method = "POST", .target = "/query_dp_ranks", .body = dp_rank_query_body(ids)},
             [this, address, asked](const Status &status, const HttpReply &reply) {
                 std::map<uint64_t, uint32_t> ranks;
                 const Status understood = understand(address, status, reply, read_dp_ranks, &ranks);
                 ask_on(address);
                 answer(*asked, understood, ranks);
             });
    }

    void ask_on(const std::string &address) {
        const auto question = questions_.find(address);
        if (question->second.waiting.empty())
            questions_.erase(question);
        else
            ask(address);
    }

    // A callback may cancel the calls or destroy the client: then the rest are not to run.
    void answer(const std::vector<AskedRoom> &rooms, const Status &status, const std::map<uint64_t, uint32_t> &ranks) {
        const uint64_t epoch = epoch_;
        for (const AskedRoom &room : rooms) {
            if (epoch != epoch_)
                return;
            const auto rank = ranks.find(room.room_id);
            room.done(status, rank == ranks.end() ? std::nullopt : std::optional<uint32_t>(rank->second));
        }
    }

    boost::asio::io_context *io_;
    std::chrono::milliseconds deadline_;
    uint64_t next_id_ = 0;
    uint64_t epoch_ = 0; // how often everything was cancelled
    std::map<std::string, Server> servers_;
    std::map<std::string, Question> questions_;
};

BootstrapClient::BootstrapClient(boost::asio::io_context &io, std::chrono::milliseconds deadline)
    : calls_(std::make_shared<Calls>(&io, deadline)) {}

BootstrapClient::~BootstrapClient() {
    calls_->cancel_all();
}

void BootstrapClient::register_rank(const std::string &address, const RankRecord &record, Registered done) {
    calls_->call(address, {.server = {}, .method = "PUT", .target = "/route", .body = registration_body(record)},
                 [address, done = std::move(done)](const Status &status, const HttpReply &reply) {
                     done(status.ok() ? judge(address, reply) : status);
                 });
}

void BootstrapClient::topology(const std::string &address, GotTopology done) {
    calls_->call(address, {.server = {}, .method = "GET", .target = route_target("-1", "-1", "-1", "-1"), .body = {}},
                 [address, done = std::move(done)](const Status &status, const HttpReply &reply) {
                     Topology topology;
                     const Status understood = understand(address, status, reply, read_topology, &topology);
                     done(understood, topology);
                 });
}

void BootstrapClient::rank(const std::string &address, const RankPlace &place, GotRank done) {
    std::string target = route_target(std::to_string(place.dp), std::to_string(place.cp), std::to_string(place.tp),
                                      std::to_string(place.pp));
    calls_->call(address, {.server = {}, .method = "GET", .target = std::move(target), .body = {}},
                 [address, place, done = std::move(done)](const Status &status, const HttpReply &reply) {
                     RankAddress rank;
                     if (status.ok() && reply.status == 404) {
                         const std::string sentence = server_at(address) + " knows no rank with " + format_place(place);
                         return done({KVF_ERR_BOOTSTRAP, sentence}, rank);
                     }
                     const Status understood = understand(address, status, reply, read_rank_address, &rank);
                     done(understood, rank);
                 });
}

void BootstrapClient::register_dp_rank(const std::string &address, uint64_t room_id, uint32_t dp_rank,
                                       Registered done) {
    calls_->call(address,
                 {.server = {},
                  .method = "POST",
                  .target = "/register_dp_rank",
                  .body = room_dp_rank_body({.room_id = room_id, .dp_rank = dp_rank})},
                 [address, done = std::move(done)](const Status &status, const HttpReply &reply) {
                     done(status.ok() ? judge(address, reply) : status);
                 });
}

void BootstrapClient::dp_rank_of_room(const std::string &address, uint64_t room_id, GotDpRank done) {
    calls_->ask_for_room(address, room_id, std::move(done));
}

void BootstrapClient::cancel_all() {
    calls_->cancel_all();
}

} // namespace kvf
