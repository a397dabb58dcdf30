#include "demo.h"

#include <algorithm>
#include <cstdio>

#include "places.h"
#include "questions.h"
#include "show.h"

namespace llama {
namespace {

constexpr uint32_t kPromptTokens = 256, kAnswerTokens = 32; // generated when not told how many

std::string given_or_own(const std::string &given, const char *own) {
    return given.empty() ? find_model_file(own) : given;
}

class Demo {
  public:
    Demo(const DemoOptions &options, std::FILE *log)
        : options_(options),
          log_(log),
          model_path_(given_or_own(options.model, "recall.bin")),
          model_(model_path_),
          tokenizer_(given_or_own(options.tokenizer, "recall_tokenizer.bin"), model_.config().vocab) {}

    bool ask_questions();
    bool go_on(const std::string &prompt);

  private:
    size_t max_tokens() const { return static_cast<size_t>(model_.config().max_tokens); }
    void progress(const std::string &line) const;

    Request make_request(const std::string &prompt, uint32_t tokens, Token stop) const;
    std::vector<Question> make_questions() const;
    uint32_t pool_pages(const std::vector<uint32_t> &rooms) const;
    std::vector<Outcome> run_split(const std::vector<Request> &requests);
    std::string difference(const Request &request, const Outcome &outcome);
    void print_story(const Request &request, const Outcome &outcome) const;
    bool conclude(const std::vector<Row> &rows) const;

    const DemoOptions &options_;
    std::FILE *log_;
    std::string model_path_;
    Llama model_;
    Tokenizer tokenizer_;
};

// Flushed, so that a pipe shows it as it happens.
void Demo::progress(const std::string &line) const {
    std::fprintf(log_, "%s\n", line.c_str());
    std::fflush(log_);
}

Request Demo::make_request(const std::string &prompt, uint32_t tokens, Token stop) const {
    Request out{tokenizer_.encode(prompt), {0, stop}};
    if (out.prompt.size() > max_tokens())
        fail("the prompt has %zu tokens, the model takes at most %zu", out.prompt.size(), max_tokens());
    // The last token generated needs no position of its own.
    const size_t left = max_tokens() - out.prompt.size() + 1;
    out.limit.max_tokens = static_cast<uint32_t>(std::min<size_t>(tokens, left));
    return out;
}

std::vector<Question> Demo::make_questions() const {
    Random random(options_.seed);
    std::vector<Question> out{sample_question()};
    while (out.size() < options_.rooms)
        out.push_back(make_question(random, max_tokens() - 1)); // the first token is kBegin
    return out;
}

// For all rooms at once with some to spare, so that pages come scattered; at least for the greatest room.
uint32_t Demo::pool_pages(const std::vector<uint32_t> &rooms) const {
    uint64_t sum = 0;
    for (const uint32_t pages : rooms)
        sum += pages;
    const size_t page_bytes = sizeof(float) * kPageTokens * static_cast<size_t>(model_.config().kv_dim()) *
                              static_cast<size_t>(model_.config().layers) * 2;
    const uint64_t most =
        std::max<uint64_t>(options_.pool_bytes / page_bytes, *std::max_element(rooms.begin(), rooms.end()));
    return static_cast<uint32_t>(std::min(sum + sum / 4 + 1, most));
}

std::vector<Outcome> Demo::run_split(const std::vector<Request> &requests) {
    std::vector<uint32_t> prefill_pages, decode_pages;
    for (const Request &request : requests) {
        prefill_pages.push_back(pages_for(request.prompt.size()));
        decode_pages.push_back(pages_for(positions_for(request.prompt.size(), request.limit.max_tokens)));
    }
    Router router({find_program("kvferry-llama-prefill"), find_program("kvferry-llama-decode"), model_path_,
                   options_.transport, options_.transport_options, pool_pages(prefill_pages), pool_pages(decode_pages),
                   static_cast<uint32_t>(requests.size()), options_.chunk_tokens, options_.seed, options_.silence_ms,
                   [this](const std::string &line) { progress(line); }});

    const auto longer = std::count_if(requests.begin(), requests.end(), [this](const Request &request) {
        return request.prompt.size() > options_.chunk_tokens;
    });
    progress(text("rooms at the same time: %zu, longer than a chunk of %u tokens: %td", requests.size(),
                  options_.chunk_tokens, static_cast<ptrdiff_t>(longer)));
    std::vector<Outcome> outcomes = router.run(requests);
    router.close();

    uint64_t bytes = 0;
    size_t tokens = 0;
    for (const Outcome &outcome : outcomes) {
        bytes += outcome.prefill ? outcome.prefill->bytes : 0;
        tokens += outcome.tokens.size();
    }
    progress(text("%.2f MiB of cache moved, %zu tokens decoded, both processes exited",
                  static_cast<double>(bytes) / (1 << 20), tokens));
    return outcomes;
}

// The first token that is another than in one process, in words; "" for none.
std::string Demo::difference(const Request &request, const Outcome &outcome) {
    if (!outcome.failure().empty())
        return {};
    const std::vector<Token> alone = generate(model_, request.prompt, request.limit);
    const auto [ours, theirs] = std::mismatch(outcome.tokens.begin(), outcome.tokens.end(), alone.begin(), alone.end());
    if (ours == outcome.tokens.end() && theirs == alone.end())
        return {};
    if (ours == outcome.tokens.end() || theirs == alone.end())
        return text("%zu tokens, in one process %zu", outcome.tokens.size(), alone.size());
    return text("token %td is %d, in one process %d", ours - outcome.tokens.begin(), *ours, *theirs);
}

bool Demo::conclude(const std::vector<Row> &rows) const {
    size_t right = 0;
    for (const Row &row : rows) {
        right += row.right() ? 1 : 0;
        if (row.right())
            continue;
        const std::string failure = row.outcome.failure();
        const std::string why = !failure.empty()          ? failure
                                : !row.difference.empty() ? row.difference
                                                          : "the answer is not the true one";
        std::fprintf(stderr, "kvferry demo: room %llu: %s\n", static_cast<unsigned long long>(row.outcome.room_id),
                     why.c_str());
    }
    progress(text("\n%zu of %zu rooms right (every token as in one process%s)", right, rows.size(),
                  options_.prompt ? "" : ", the answer true"));
    return right == rows.size();
}

bool Demo::ask_questions() {
    const Token stop = tokenizer_.encode(std::string(1, kAnswerEnd)).back();
    const std::vector<Question> questions = make_questions();
    std::vector<Request> requests;
    requests.reserve(questions.size());
    for (const Question &question : questions)
        requests.push_back(make_request(question.prompt, options_.tokens == 0 ? kAnswerTokens : options_.tokens, stop));
    std::vector<Outcome> outcomes = run_split(requests);

    std::vector<Row> rows;
    for (size_t i = 0; i < questions.size(); ++i) {
        const std::string answer = tokenizer_.decode(outcomes[i].tokens);
        std::string differs = difference(requests[i], outcomes[i]);
        rows.push_back({requests[i].prompt.size(), std::move(outcomes[i]), std::move(differs), questions[i].question,
                        answer, questions[i].answer});
    }
    progress("every token compared with a run in one process\n");
    show_answers(log_, rows);
    show_rooms(log_, rows);
    return conclude(rows);
}

void Demo::print_story(const Request &request, const Outcome &outcome) const {
    std::vector<Token> all = request.prompt;
    all.insert(all.end(), outcome.tokens.begin(), outcome.tokens.end());
    const std::string story = tokenizer_.decode(all);
    std::fwrite(story.data(), 1, story.size(), stdout);
    if (!story.ends_with('\n'))
        std::fputc('\n', stdout);
    std::fflush(stdout);
}

bool Demo::go_on(const std::string &prompt) {
    const Request request = make_request(prompt, options_.tokens == 0 ? kPromptTokens : options_.tokens, kNoStop);
    Outcome outcome = run_split({request}).front();
    if (outcome.failure().empty())
        print_story(request, outcome);

    std::string differs = difference(request, outcome);
    const std::vector<Row> rows{{request.prompt.size(), std::move(outcome), std::move(differs), {}, {}, {}}};
    show_rooms(log_, rows);
    return conclude(rows);
}

void check_options(const DemoOptions &options) {
    if (options.model.empty() != options.tokenizer.empty())
        fail("a model and its tokenizer go together: %s was given alone",
             options.model.empty() ? options.tokenizer.c_str() : options.model.c_str());
    if (options.rooms == 0)
        fail("0 rooms, expected at least 1");
    if (options.chunk_tokens == 0 || options.chunk_tokens % kPageTokens != 0)
        fail("a chunk of %u tokens, expected a multiple of %u, the tokens of a page", options.chunk_tokens,
             kPageTokens);
}

} // namespace

int run_demo(const DemoOptions &options) {
    try {
        check_options(options);
        if (options.prompt)
            return Demo(options, stderr).go_on(*options.prompt) ? 0 : 1;
        return Demo(options, stdout).ask_questions() ? 0 : 1;
    } catch (const std::exception &error) {
        std::fflush(stdout);
        std::fprintf(stderr, "kvferry demo: %s\n", error.what());
        return 1;
    }
}

} // namespace llama
