// Option strings: what parses, and what the refusal says.
#include "base/options.h"

#include <gtest/gtest.h>

namespace kvf {
namespace {

TEST(Options, an_empty_text_has_none) {
    Options options{{"left", "over"}};
    EXPECT_TRUE(parse_options("", &options).ok());
    EXPECT_TRUE(options.empty());
}

TEST(Options, pairs_keep_their_order_and_values_may_be_empty_or_hold_an_equals_sign) {
    Options options;
    ASSERT_TRUE(parse_options("seed=7,delay=,path=a=b", &options).ok());
    EXPECT_EQ(options, (Options{{"seed", "7"}, {"delay", ""}, {"path", "a=b"}}));
}

TEST(Options, a_piece_that_is_no_pair_is_named) {
    Options options;
    for (const char *text : {"seed", "a=1,seed", "a=1,=2", "a=1,", ",a=1", "a=1,,b=2"}) {
        const Status status = parse_options(text, &options);
        EXPECT_EQ(status.code(), KVF_ERR_OPTION) << text;
    }
    EXPECT_EQ(parse_options("a=1,seed", &options).sentence(), "option \"seed\" is not of the form key=value");
}

TEST(Options, a_key_twice_is_named) {
    Options options;
    const Status status = parse_options("a=1,b=2,a=3", &options);
    EXPECT_EQ(status.code(), KVF_ERR_OPTION);
    EXPECT_EQ(status.sentence(), "option \"a\" is given twice");
}

TEST(Options, joining_undoes_splitting) {
    Options options;
    ASSERT_TRUE(parse_options("a=1,b=,c=x=y", &options).ok());
    EXPECT_EQ(join_options(options), "a=1,b=,c=x=y");
    EXPECT_EQ(join_options({}), "");
}

} // namespace
} // namespace kvf
