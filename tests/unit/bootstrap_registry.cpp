// The bootstrap server's routes, without sockets: what SGLang's ranks send, what its decode engines read, and that
// nonsense is refused with a sentence.
#include "control/bootstrap_registry.h"

#include <gtest/gtest.h>
#include <boost/json.hpp>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kvf {
namespace {

namespace json = boost::json;
using Reply = BootstrapRegistry::Reply;

const char *const kTopology = "/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1";

// What a rank of SGLang sends: tp_size ranks of tensor parallelism, and nothing else in parallel.
json::object rank_body(int tp_rank, int tp_size) {
    return {
        {"attn_tp_size", tp_size},
        {"attn_tp_rank", tp_rank},
        {"attn_cp_size", 1},
        {"attn_cp_rank", 0},
        {"attn_dp_size", 1},
        {"attn_dp_rank", 0},
        {"pp_size", 1},
        {"pp_rank", 0},
        {"system_dp_size", 1},
        {"system_dp_rank", 0},
        {"rank_ip", "10.0.0.7"},
        {"rank_port", 40000 + tp_rank},
        {"page_size", 64},
        {"kv_cache_dtype", "auto"},
        {"load_balance_method", "follow_bootstrap_room"},
    };
}

std::string rank_target(int dp, int cp, int tp, int pp) {
    return "/route?prefill_dp_rank=" + std::to_string(dp) + "&prefill_cp_rank=" + std::to_string(cp) +
           "&target_tp_rank=" + std::to_string(tp) + "&target_pp_rank=" + std::to_string(pp);
}

class Registry : public testing::Test {
  protected:
    Reply put(const json::object &body) { return registry_.handle("PUT", "/route", json::serialize(body)); }
    Reply get(const std::string &target) { return registry_.handle("GET", target, ""); }
    Reply post(const std::string &target, const std::string &body) { return registry_.handle("POST", target, body); }

    void put_all(int tp_size) {
        for (int rank = 0; rank < tp_size; ++rank)
            ASSERT_EQ(put(rank_body(rank, tp_size)).status, 200U);
    }

    json::object topology() {
        const Reply reply = get(kTopology);
        EXPECT_EQ(reply.status, 200U) << reply.body;
        EXPECT_EQ(reply.content_type, "application/json; charset=utf-8");
        return reply.status == 200 ? json::parse(reply.body).as_object() : json::object();
    }

    // The port that is registered for a rank; 0 without one.
    int64_t port_of(int dp, int cp, int tp, int pp) {
        const Reply reply = get(rank_target(dp, cp, tp, pp));
        return reply.status == 200 ? json::parse(reply.body).at("rank_port").as_int64() : 0;
    }

    void expect_refused(const Reply &reply, const std::string &sentence) {
        EXPECT_EQ(reply.status, 400U);
        EXPECT_EQ(reply.body, sentence);
    }

    BootstrapRegistry registry_{4};
};

TEST_F(Registry, a_registered_rank_is_found_with_the_fields_that_sglang_reads) {
    EXPECT_EQ(put(rank_body(0, 1)).body, "OK");
    const Reply reply = get(rank_target(0, 0, 0, 0));
    EXPECT_EQ(reply.status, 200U);
    EXPECT_EQ(json::parse(reply.body), (json::value{{"rank_ip", "10.0.0.7"}, {"rank_port", 40000}}));
}

TEST_F(Registry, the_topology_has_the_fields_that_every_release_of_sglang_knows_and_no_others) {
    put_all(2);
    const json::object expected{{"attn_tp_size", 2},
                                {"attn_cp_size", 1},
                                {"dp_size", 1},
                                {"pp_size", 1},
                                {"page_size", 64},
                                {"kv_cache_dtype", "auto"},
                                {"follow_bootstrap_room", true}};
    EXPECT_EQ(topology(), expected);
}

TEST_F(Registry, fields_of_later_releases_are_repeated_when_the_group_sent_them) {
    json::object body = rank_body(0, 1);
    body["kv_layout"] = "hnd";
    body["decode_allocation_policy"] = "late";
    body["enable_dsa_cache_layer_split"] = true;
    body["enable_kv_cache_sharding"] = false;
    body["prefill_http_port"] = 30000;
    body["dsv41_spec_layout"] = {{"layers", {1, 2}}};
    ASSERT_EQ(put(body).status, 200U);
    const json::object reply = topology();
    EXPECT_EQ(reply.at("kv_layout"), "hnd");
    EXPECT_EQ(reply.at("decode_allocation_policy"), "late");
    EXPECT_EQ(reply.at("enable_dsa_cache_layer_split"), true);
    EXPECT_EQ(reply.at("enable_kv_cache_sharding"), false);
    EXPECT_EQ(reply.at("prefill_http_port"), 30000);
    EXPECT_EQ(reply.at("dsv41_spec_layout"), (json::value{{"layers", {1, 2}}}));
}

TEST_F(Registry, fields_that_are_null_are_as_if_not_sent) {
    json::object body = rank_body(0, 1);
    for (const char *name : {"kv_layout", "dsv41_spec_layout", "prefill_http_port", "kv_cache_dtype", "page_size"})
        body[name] = nullptr;
    ASSERT_EQ(put(body).status, 200U);
    const json::object reply = topology();
    EXPECT_FALSE(reply.contains("kv_layout"));
    EXPECT_FALSE(reply.contains("prefill_http_port"));
    EXPECT_EQ(reply.at("kv_cache_dtype"), json::value());
    EXPECT_EQ(reply.at("page_size"), json::value());
}

TEST_F(Registry, fields_that_nobody_knows_are_ignored) {
    json::object body = rank_body(0, 1);
    body["kvferry"] = {{"deep", {1, 2, 3}}};
    EXPECT_EQ(put(body).status, 200U);
    EXPECT_FALSE(topology().contains("kvferry"));
}

TEST_F(Registry, the_extra_fields_are_those_of_the_lowest_rank_whatever_the_order) {
    json::object second = rank_body(1, 2);
    second["prefill_http_port"] = 31001;
    json::object first = rank_body(0, 2);
    first["prefill_http_port"] = 31000;
    ASSERT_EQ(put(second).status, 200U);
    ASSERT_EQ(put(first).status, 200U);
    ASSERT_EQ(put(second).status, 200U);
    EXPECT_EQ(topology().at("prefill_http_port"), 31000);
}

TEST_F(Registry, numbers_may_be_decimal_strings_as_in_sglang) {
    json::object body = rank_body(0, 1);
    body["rank_port"] = "40000";
    body["page_size"] = "64";
    EXPECT_EQ(put(body).status, 200U);
    EXPECT_EQ(port_of(0, 0, 0, 0), 40000);
    EXPECT_EQ(topology().at("page_size"), 64);
}

TEST_F(Registry, any_load_balance_but_follow_bootstrap_room_is_told_as_false) {
    json::object body = rank_body(0, 1);
    body["load_balance_method"] = "round_robin";
    ASSERT_EQ(put(body).status, 200U);
    EXPECT_EQ(topology().at("follow_bootstrap_room"), false);
}

TEST_F(Registry, without_a_load_balance_the_rank_follows_the_room) {
    json::object body = rank_body(0, 1);
    body.erase("load_balance_method");
    ASSERT_EQ(put(body).status, 200U);
    EXPECT_EQ(topology().at("follow_bootstrap_room"), true);
}

TEST_F(Registry, attention_dp_counts_when_the_system_has_none) {
    for (int rank = 0; rank < 2; ++rank) {
        json::object body = rank_body(0, 1);
        body["attn_dp_size"] = 2;
        body["attn_dp_rank"] = rank;
        body["system_dp_rank"] = rank; // beside a system_dp_size of 1, as SGLang has it with attention dp
        body["rank_port"] = 50000 + rank;
        ASSERT_EQ(put(body).status, 200U);
    }
    EXPECT_EQ(topology().at("dp_size"), 2);
    EXPECT_EQ(port_of(1, 0, 0, 0), 50001);
}

TEST_F(Registry, system_dp_counts_when_it_is_there) {
    for (int rank = 0; rank < 2; ++rank) {
        json::object body = rank_body(0, 1);
        body["system_dp_size"] = 2;
        body["system_dp_rank"] = rank;
        body["rank_port"] = 50000 + rank;
        ASSERT_EQ(put(body).status, 200U);
    }
    EXPECT_EQ(topology().at("dp_size"), 2);
    EXPECT_EQ(port_of(1, 0, 0, 0), 50001);
}

TEST_F(Registry, every_axis_of_a_rank_is_its_own) {
    int port = 41000;
    for (int cp = 0; cp < 2; ++cp) {
        for (int tp = 0; tp < 2; ++tp) {
            for (int pp = 0; pp < 2; ++pp) {
                json::object body = rank_body(tp, 2);
                body["attn_cp_size"] = 2;
                body["attn_cp_rank"] = cp;
                body["pp_size"] = 2;
                body["pp_rank"] = pp;
                body["rank_port"] = port++;
                ASSERT_EQ(put(body).status, 200U);
            }
        }
    }
    EXPECT_EQ(port_of(0, 0, 0, 1), 41001);
    EXPECT_EQ(port_of(0, 0, 1, 0), 41002);
    EXPECT_EQ(port_of(0, 1, 0, 0), 41004);
    EXPECT_EQ(port_of(0, 1, 1, 1), 41007);
}

TEST_F(Registry, nothing_is_told_before_all_ranks_are_there) {
    EXPECT_EQ(get(kTopology).status, 503U);
    EXPECT_EQ(get(kTopology).body, "not all ranks have registered: none is there");
    ASSERT_EQ(put(rank_body(0, 3)).status, 200U);
    ASSERT_EQ(put(rank_body(2, 3)).status, 200U);
    const std::string sentence =
        "not all ranks have registered: 2 of 3 are there; the first missing has dp rank 0, cp "
        "rank 0, tp rank 1, pp rank 0";
    EXPECT_EQ(get(kTopology).status, 503U);
    EXPECT_EQ(get(kTopology).body, sentence);
    EXPECT_EQ(get(rank_target(0, 0, 0, 0)).status, 503U);
    ASSERT_EQ(put(rank_body(1, 3)).status, 200U);
    EXPECT_EQ(get(kTopology).status, 200U);
}

TEST_F(Registry, the_same_rank_twice_is_not_two_ranks) {
    ASSERT_EQ(put(rank_body(0, 2)).status, 200U);
    ASSERT_EQ(put(rank_body(0, 2)).status, 200U);
    EXPECT_EQ(get(kTopology).status, 503U);
}

TEST_F(Registry, a_rank_that_registers_again_replaces_its_entry) {
    put_all(2);
    json::object body = rank_body(1, 2);
    body["rank_port"] = 49999;
    ASSERT_EQ(put(body).status, 200U);
    EXPECT_EQ(port_of(0, 0, 1, 0), 49999);
    EXPECT_EQ(port_of(0, 0, 0, 0), 40000);
}

TEST_F(Registry, a_group_that_restarts_with_another_configuration_starts_the_table_anew) {
    put_all(2);
    ASSERT_EQ(put(rank_body(0, 4)).status, 200U);
    EXPECT_EQ(get(kTopology).status, 503U);
    put_all(4);
    EXPECT_EQ(topology().at("attn_tp_size"), 4);
}

TEST_F(Registry, a_table_that_was_never_full_does_not_lock_out_another_group) {
    ASSERT_EQ(put(rank_body(3, 4)).status, 200U);
    put_all(2);
    EXPECT_EQ(topology().at("attn_tp_size"), 2);
}

TEST_F(Registry, a_new_rank_of_another_configuration_is_refused_and_changes_nothing) {
    ASSERT_EQ(put(rank_body(0, 2)).status, 200U);
    expect_refused(put(rank_body(1, 4)), "attn_tp_size is 4, but the ranks registered here have 2");
    const std::vector<std::pair<const char *, json::value>> changes = {
        {"page_size", 16},
        {"kv_cache_dtype", "fp8_e4m3"},
        {"load_balance_method", "round_robin"},
        {"decode_allocation_policy", "late"},
        {"dsv41_spec_layout", json::object{{"a", 1}}},
        {"pp_size", 2},
        {"attn_cp_size", 2},
        {"attn_dp_size", 2},
    };
    for (const auto &[name, value] : changes) {
        json::object body = rank_body(1, 2);
        body[name] = value;
        EXPECT_EQ(put(body).status, 400U) << name;
    }
    ASSERT_EQ(put(rank_body(1, 2)).status, 200U);
    EXPECT_EQ(topology().at("page_size"), 64);
}

TEST_F(Registry, the_policy_that_sglang_defaults_to_may_be_said_or_not) {
    ASSERT_EQ(put(rank_body(0, 2)).status, 200U);
    json::object body = rank_body(1, 2);
    body["decode_allocation_policy"] = "early";
    EXPECT_EQ(put(body).status, 200U);
}

TEST_F(Registry, ranks_that_are_not_there_are_404_with_their_ranks) {
    put_all(1);
    EXPECT_EQ(get(rank_target(0, 0, 1, 0)).status, 404U);
    EXPECT_EQ(get(rank_target(0, 0, 1, 0)).body,
              "no rank is registered with dp rank 0, cp rank 0, tp rank 1, pp rank 0");
    EXPECT_EQ(get(rank_target(-1, 0, 0, 0)).status, 404U);
    EXPECT_EQ(get(rank_target(0, -1, -1, -1)).status, 404U);
    EXPECT_EQ(get("/route?prefill_dp_rank=4294967296&prefill_cp_rank=0&target_tp_rank=0&target_pp_rank=0").status,
              404U);
}

TEST_F(Registry, a_query_is_refused_with_the_parameter_that_is_wrong) {
    put_all(1);
    const std::string rest = "; expected a rank, or -1 in all four for the topology";
    expect_refused(get("/route"), "prefill_dp_rank is missing" + rest);
    expect_refused(get("/route?"), "prefill_dp_rank is missing" + rest);
    expect_refused(get("/route?engine_rank=-1&target_dp_group=-1&target_pp_rank=-1"),
                   "prefill_dp_rank is missing" + rest);
    const std::string three = "/route?prefill_dp_rank=0&prefill_cp_rank=0&target_tp_rank=0";
    expect_refused(get(three), "target_pp_rank is missing" + rest);
    for (const char *bad : {"", "x", "-2", "1.5", "1x", "+1", "99999999999999999999", "%", "%3", "%zz"})
        expect_refused(get(three + "&target_pp_rank=" + bad), "target_pp_rank is '" + std::string(bad) + "'" + rest);
}

TEST_F(Registry, a_query_may_be_percent_encoded_in_any_order_and_have_other_parameters) {
    put_all(1);
    EXPECT_EQ(get("/route?target_pp_rank=%30&x&&y=1&target_tp_rank=0&prefill_cp_rank=0&prefill_dp_rank=0").status,
              200U);
    EXPECT_EQ(get("/route?prefill_dp_rank=%2D1&prefill_cp_rank=%2d1&target_tp_rank=-1&target_pp_rank=-1").status, 200U);
}

TEST_F(Registry, each_field_of_a_registration_that_is_missing_is_named) {
    for (const auto &entry : rank_body(0, 1)) {
        const std::string name(entry.key());
        if (name == "load_balance_method" || name == "page_size" || name == "kv_cache_dtype")
            continue;
        json::object body = rank_body(0, 1);
        body.erase(name);
        const Reply reply = put(body);
        EXPECT_EQ(reply.status, 400U) << name;
        EXPECT_EQ(reply.body.rfind(name + " is missing; expected ", 0), 0U) << reply.body;
    }
    EXPECT_EQ(get(kTopology).status, 503U);
}

TEST_F(Registry, each_field_of_a_registration_that_is_wrong_is_named_with_its_value) {
    const json::value wrong[] = {
        -1,   1.5, true, json::array{1}, json::object{}, "x y", "", json::string(300, 'a'), "\n", 18446744073709551615U,
        1e300};
    for (const auto &entry : rank_body(0, 1)) {
        const std::string name(entry.key());
        for (const json::value &value : wrong) {
            json::object body = rank_body(0, 1);
            body[name] = value;
            const Reply reply = put(body);
            EXPECT_EQ(reply.status, 400U) << name << " " << json::serialize(value);
            EXPECT_EQ(reply.body.rfind(name + " is ", 0), 0U) << reply.body;
            EXPECT_NE(reply.body.find("; expected "), std::string::npos) << reply.body;
            EXPECT_LT(reply.body.size(), 200U);
        }
    }
    EXPECT_EQ(get(kTopology).status, 503U);
}

TEST_F(Registry, the_sentence_of_a_wrong_field_says_value_and_range) {
    json::object body = rank_body(0, 1);
    body["attn_tp_rank"] = 1;
    expect_refused(put(body), "attn_tp_rank is 1; expected an integer from 0 to 0");
    body = rank_body(0, 1);
    body["pp_size"] = 0;
    expect_refused(put(body), "pp_size is 0; expected an integer from 1 to 65536");
    body = rank_body(0, 1);
    body["rank_port"] = 65536;
    expect_refused(put(body), "rank_port is 65536; expected an integer from 1 to 65535");
    body = rank_body(0, 1);
    body["enable_kv_cache_sharding"] = 1;
    expect_refused(put(body), "enable_kv_cache_sharding is 1; expected true or false");
    body = rank_body(0, 1);
    body["dsv41_spec_layout"] = json::object{{"long", json::string(20000, 'a')}};
    EXPECT_EQ(put(body).status, 400U);
}

TEST_F(Registry, sizes_that_make_too_many_ranks_are_refused) {
    json::object body = rank_body(0, 65536);
    body["pp_size"] = 65536;
    body["attn_cp_size"] = 65536;
    body["attn_dp_size"] = 65535;
    EXPECT_EQ(put(body).status, 400U);
    body = rank_body(0, 65536);
    body["pp_size"] = 2;
    expect_refused(put(body), "the sizes make 131072 ranks; expected at most 65536");
}

TEST_F(Registry, a_body_that_is_no_json_object_is_refused) {
    for (const char *body :
         {"", " ", "{", "[]", "null", "1", "{\"a\":}", "{\"a\":1}x", "\xff\xfe", "{\"a\":\"\xff\"}"}) {
        EXPECT_EQ(registry_.handle("PUT", "/route", body).status, 400U) << body;
        EXPECT_EQ(post("/register_dp_rank", body).status, 400U) << body;
        EXPECT_EQ(post("/query_dp_ranks", body).status, 400U) << body;
    }
    const std::string deep = "{\"a\":" + std::string(100000, '[');
    EXPECT_EQ(registry_.handle("PUT", "/route", deep).status, 400U);
}

TEST_F(Registry, dp_ranks_of_rooms_are_told_by_id_in_strings) {
    EXPECT_EQ(post("/register_dp_rank", R"({"bootstrap_room": 9223372036854775807, "dp_rank": 3})").body, "OK");
    EXPECT_EQ(post("/register_dp_rank", R"({"bootstrap_room": "5", "dp_rank": "1"})").status, 200U);
    const Reply reply = post("/query_dp_ranks", R"({"bootstrap_rooms": [5, 9223372036854775807, 6, 5, "5"]})");
    EXPECT_EQ(reply.status, 200U);
    EXPECT_EQ(json::parse(reply.body), (json::value{{"5", 1}, {"9223372036854775807", 3}}));
    EXPECT_EQ(post("/query_dp_ranks", R"({"bootstrap_rooms": []})").body, "{}");
}

TEST_F(Registry, room_ids_of_all_64_bits_survive) {
    EXPECT_EQ(post("/register_dp_rank", R"({"bootstrap_room": 18446744073709551615, "dp_rank": 0})").status, 200U);
    EXPECT_EQ(post("/query_dp_ranks", R"({"bootstrap_rooms": [18446744073709551615]})").body,
              R"({"18446744073709551615":0})");
}

TEST_F(Registry, the_oldest_room_is_dropped_when_there_are_too_many) {
    for (int room = 1; room <= 4; ++room)
        post("/register_dp_rank", R"({"dp_rank": 0, "bootstrap_room": )" + std::to_string(room) + "}");
    post("/register_dp_rank", R"({"dp_rank": 7, "bootstrap_room": 1})"); // is as new
    post("/register_dp_rank", R"({"dp_rank": 0, "bootstrap_room": 5})");
    EXPECT_EQ(json::parse(post("/query_dp_ranks", R"({"bootstrap_rooms": [1, 2, 3, 4, 5]})").body),
              (json::value{{"1", 7}, {"3", 0}, {"4", 0}, {"5", 0}}));
}

TEST_F(Registry, rooms_that_are_wrong_are_refused) {
    expect_refused(post("/register_dp_rank", R"({"bootstrap_room": -1, "dp_rank": 0})"),
                   "bootstrap_room is -1; expected an integer from 0 to 18446744073709551615");
    expect_refused(post("/register_dp_rank", R"({"bootstrap_room": 18446744073709551616, "dp_rank": 0})"),
                   "bootstrap_room is 1.8446744073709552E19; expected an integer from 0 to 18446744073709551615");
    expect_refused(post("/register_dp_rank", R"({"bootstrap_room": 1, "dp_rank": 65536})"),
                   "dp_rank is 65536; expected an integer from 0 to 65535");
    expect_refused(post("/query_dp_ranks", R"({"bootstrap_rooms": 7})"),
                   "bootstrap_rooms is 7; expected an array of room ids");
    expect_refused(post("/query_dp_ranks", R"({"bootstrap_rooms": [1, null]})"),
                   "bootstrap_rooms has the element null; expected room ids from 0 to 18446744073709551615");
}

TEST_F(Registry, health_is_ok) {
    EXPECT_EQ(get("/health").status, 200U);
    EXPECT_EQ(get("/health").body, "OK");
    EXPECT_EQ(registry_.handle("HEAD", "/health", "").status, 200U);
}

TEST_F(Registry, other_methods_are_405_and_other_paths_404) {
    EXPECT_EQ(registry_.handle("DELETE", "/route", "").status, 405U);
    EXPECT_EQ(registry_.handle("DELETE", "/route", "").allow, "GET, HEAD, PUT");
    EXPECT_EQ(registry_.handle("POST", "/route", "{}").status, 405U);
    EXPECT_EQ(get("/register_dp_rank").status, 405U);
    EXPECT_EQ(get("/query_dp_ranks").allow, "POST");
    EXPECT_EQ(post("/health", "").status, 405U);
    for (const char *target : {"", "/", "*", "/routes", "/route/", "//route", "?", "/%72oute", "route"})
        EXPECT_EQ(get(target).status, 404U) << target;
    EXPECT_EQ(get("/\r\nx").body, "there is no /??x here");
}

} // namespace
} // namespace kvf
