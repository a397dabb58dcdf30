// fuzz_seeds FOLDER: writes the first inputs of every fuzz target to FOLDER/<target>/, from the same few messages that
// unit tests begin with. What a fuzzer found beside them has other names.
#include "../unit/wire_samples.h"
#include "control/bootstrap_messages.h"
#include "control/codec.h"
#include "messages_input.h"
#include "shard_input.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>

namespace {

using namespace kvf;
using fuzz::Act;
using fuzz::Step;

std::filesystem::path g_folder;

void write(const std::string &target, const std::string &name, const Bytes &bytes) {
    std::filesystem::create_directories(g_folder / target);
    std::ofstream(g_folder / target / name, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void append(Bytes *out, std::span<const uint8_t> bytes) {
    out->insert(out->end(), bytes.begin(), bytes.end());
}

// ------------------------------------------------------------------------------------------------------------- frames

void frames() {
    Encoder encoder;
    Bytes all{1, 9};
    for (const WireMessage &message : test::sample_messages()) {
        std::span<const uint8_t> frame;
        if (!encoder.encode(message, &frame).ok())
            continue;
        Bytes one{0, 0};
        append(&one, frame);
        append(&all, frame);
        write("frames", std::string("one_") + kMessageNames[message.index()], one);
    }
    write("frames", "all_in_pieces", all);
}

// ----------------------------------------------------------------------------------------------------------- messages

using Record = std::pair<Step, Bytes>;

void messages(const std::string &name, uint8_t role, std::initializer_list<std::vector<Record>> parts) {
    Bytes out{static_cast<uint8_t>(role - 1)};
    for (const std::vector<Record> &part : parts)
        for (const auto &[step, bytes] : part) {
            out.push_back(static_cast<uint8_t>(step));
            out.push_back(static_cast<uint8_t>(bytes.size()));
            append(&out, bytes);
        }
    write("messages", name, out);
}

void messages() {
    const std::vector<Record> accepted{
        {Step::connect, {}}, {Step::hello, {}}, {Step::layout, {}}, {Step::regions, {}}, {Step::ready, {}}};
    const std::vector<Record> dialed{{Step::room, {0, 0, 0}}, {Step::connect, {1, 0}}, {Step::hello, {}},
                                     {Step::layout, {}},      {Step::regions, {}},     {Step::select, {}},
                                     {Step::ready, {}}};
    const std::vector<Record> lost{{Step::close, {}}, {Step::time, {200}}, {Step::release, {}}};
    messages("accept", KVF_ROLE_PREFILL, {accepted, lost});
    messages("dial", KVF_ROLE_DECODE, {dialed, lost});
    messages("rooms_of_a_dialer", KVF_ROLE_PREFILL,
             {accepted,
              {{Step::offer, {}}, {Step::abort, {}}, {Step::heartbeat, {}}, {Step::room, {3, 1}}, {Step::bye, {}}}});
    messages("rooms_of_an_acceptor", KVF_ROLE_DECODE,
             {dialed,
              {{Step::room, {2, 0}},
               {Step::status, {}},
               {Step::room, {5, 0}},
               {Step::drained, {}},
               {Step::bye, {0, 1}},
               {Step::time, {50}}}});
    messages("settle", KVF_ROLE_DECODE,
             {dialed,
              {{Step::close, {}},
               {Step::room, {6, 0}},
               {Step::connect, {1, 0}},
               {Step::hello, {}},
               {Step::drained, {}},
               {Step::release, {}}}});
    messages("other_layout", KVF_ROLE_BOTH,
             {{{Step::connect, {}}, {Step::hello, {}}, {Step::layout, {2, 0, 10, 3}}, {Step::abort, {2, 0}}}});
    messages("other_tensors_later", KVF_ROLE_BOTH,
             {accepted, {{Step::exports, {0, 5}}, {Step::layout, {0, 2, 6, 50}}, {Step::regions, {0, 2}}}});
    messages("no_transport", KVF_ROLE_PREFILL,
             {{{Step::transport, {1, 1}}}, accepted, {{Step::exports, {1}}, {Step::exports, {2}}}});
    messages("bootstrap", KVF_ROLE_BOTH,
             {{{Step::answer, {0}},
               {Step::room, {0, 1, 2, 0}},
               {Step::answer, {0, 1, 0, 0, 0, 0}},
               {Step::answer, {0, 1}},
               {Step::answer, {0, 8, '1', '0', '.', '0', '.', '0', '.', '7'}},
               {Step::connect, {1, 0}},
               {Step::room, {1, 1}}}});
    messages("strangers", KVF_ROLE_PREFILL,
             {accepted,
              {{Step::connect, {}},
               {Step::damaged, {0, 5, 200}},
               {Step::connect, {}},
               {Step::bytes, {255, 255, 255, 255}},
               {Step::connect, {}},
               {Step::time, {244}}}});
    const std::vector<WireMessage> samples = test::sample_messages();
    for (size_t kind = 0; kind < samples.size(); ++kind)
        messages(std::string("changed_") + kMessageNames[kind], KVF_ROLE_BOTH,
                 {accepted, {{static_cast<Step>(kind), {0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6}}}});
}

// -------------------------------------------------------------------------------------------------------------- shard

using Deed = std::pair<Act, Bytes>;

void shard(const std::string &name, const std::vector<Deed> &deeds) {
    Bytes out;
    for (const auto &[act, bytes] : deeds) {
        out.push_back(static_cast<uint8_t>(act));
        out.push_back(static_cast<uint8_t>(bytes.size()));
        append(&out, bytes);
    }
    write("shard", name, out);
}

void shards() {
    const Bytes three_pages{3, 4, 5, 6, 0};
    const auto with = [&](Bytes head) {
        append(&head, three_pages);
        return head;
    };
    const Deed open{Act::open_sender, {1, 0}}, receive{Act::open_receiver, {0, 1}}, carry{Act::carry, {}};
    const Deed accept{Act::accept, with({0, 1})}, send{Act::send, with({1, 0, 0, 0})}, advance{Act::advance, {7}};
    shard("arrives", {open, receive, carry, accept, carry, send, advance, carry, advance, carry});
    shard("lost", {open, receive, carry, accept, carry, send, {Act::advance, {0}}, {Act::lose, {0}}, carry, carry});
    shard("aborted",
          {open, receive, carry, accept, carry, send, {Act::end_receiver, {0, 1, 0}}, carry, advance, carry});
    shard("layers", {open,
                     receive,
                     carry,
                     accept,
                     carry,
                     {Act::send, with({1, 1, 0, 1})},
                     {Act::send, with({1, 0, 1, 2})},
                     advance,
                     carry});
    // [peer][id][token: of peer 0's room 1][prefix][lists][group][runs][first, length - 1]...
    shard("offers_of_others", {open, {Act::offer, {1, 1, 0, 1, 0, 1, 0, 1, 4, 2}}, send, advance, carry});
    shard("beyond", {open, {Act::offer, {0, 1, 2, 9, 0, 1, 0, 1, 31, 2}}, send, advance});
    shard("unclaimed", {{Act::offer, {0, 2, 2, 9, 0, 1, 0, 1, 3, 2}},
                        {Act::abort, {0, 3, 2, 8, 0}},
                        {Act::abort, {0, 2, 2, 9, 1}},
                        {Act::open_sender, {2, 1}},
                        {Act::open_sender, {3, 0}},
                        {Act::time, {16}},
                        carry});
    shard("lies", {open,
                   receive,
                   {Act::answer, {0, 1, 0}},
                   accept,
                   carry,
                   {Act::news, {0, 1, 0, 1, 0, 0}},
                   {Act::news, {0, 1, 0, 1, 2, 0}},
                   {Act::drained, {0, 1, 0, 1, 0}},
                   {Act::news, {1, 1, 0, 1, 1, 0}},
                   send,
                   advance,
                   carry});
}

// --------------------------------------------------------------------------------------------------------------- http

void http(const std::string &name, uint8_t who, const std::string &text) {
    Bytes out{who};
    out.insert(out.end(), text.begin(), text.end());
    write("http", name, out);
}

std::string request(const std::string &line, const std::string &body) {
    return line + " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string reply(const std::string &line, const std::string &body) {
    return "HTTP/1.1 " + line + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

// A record of the registry's: [route][a quarter of the body's length].
std::string asked(char route, std::string body) {
    body.resize((body.size() + 3) / 4 * 4, ' ');
    return std::string{route, static_cast<char>(body.size() / 4)} + body;
}

void http() {
    RankRecord record;
    record.address = {"10.0.0.1", 4000};
    record.topology.page_size = 64;
    record.topology.kv_cache_dtype = "auto";
    record.topology.follow_bootstrap_room = false;
    const std::string registration = registration_body(record);
    const std::string room = room_dp_rank_body({.room_id = 7, .dp_rank = 1});
    const std::string query = dp_rank_query_body({7, 8});
    const std::string topology = topology_body(record.topology, {});
    const std::string address = rank_address_body(record.address);
    const std::string ranks = dp_ranks_body({{7, 1}});
    const std::string whole = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1";

    http("server_registers", 0, request("PUT /route", registration) + request("GET " + whole, ""));
    http("server_rooms", 0, request("POST /register_dp_rank", room) + request("POST /query_dp_ranks", query));
    http("server_health", 0, "HEAD /health HTTP/1.0\r\nExpect: 100-continue\r\n\r\n");
    http(
        "server_chunked", 0,
        "POST /query_dp_ranks HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0"
        "\r\nTrailer: z\r\n\r\n");
    http("registry", 1,
         asked(0, registration) + asked(1, "") + asked(2, "") + asked(3, room) + asked(4, query) + asked(5, ""));
    http("registry_odd", 1, std::string("\6\22/route?a=%41&b=%zz\0", 21) + std::string("\7\3DEL\7/health\0", 13));
    int number = 0;
    for (const std::string &body : {registration, room, query, topology, address, ranks})
        http("json_" + std::to_string(number++), 2, body);
    http("json_extras", 2,
         registration.substr(0, registration.size() - 1) +
             R"(,"decode_allocation_policy":"early","dsv41_spec_layout":{"a":[1,2.5e3,null,"\u00e9"]},)"
             R"("enable_kv_cache_sharding":true,"prefill_http_port":"8000"})");
    number = 0;
    for (const std::string &body : {topology, address, ranks, std::string("OK")}) {
        http("client_" + std::to_string(number), 3, std::string(1, static_cast<char>(number)) + reply("200 OK", body));
        ++number;
    }
    http("client_not_yet", 3, std::string(1, '\0') + reply("503 Service Unavailable", "not all\x1b ranks"));
    http("client_unknown", 3, "\1" + reply("404 Not Found", ""));
    http("client_until_closed", 3, std::string(1, '\0') + "HTTP/1.0 200 OK\r\n\r\n" + topology);
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::fputs("usage: fuzz_seeds FOLDER\n", stderr);
        return 2;
    }
    g_folder = argv[1];
    frames();
    messages();
    shards();
    http();
    return 0;
}
