#include "questions.h"

#include <array>
#include <string_view>
#include <vector>

namespace llama {
namespace {

constexpr std::array<std::string_view, 24> kNames = {
    "Anna", "Bruno", "Clara", "Diego", "Emma", "Felix", "Greta", "Hugo", "Ivy",  "Jonas",  "Kira", "Luca",
    "Mara", "Nils",  "Olga",  "Pavel", "Rosa", "Simon", "Tara",  "Uwe",  "Vera", "Willem", "Yara", "Zeno"};
constexpr std::array<std::string_view, 30> kThings = {
    "violin",  "clock",  "lamp",   "kettle",  "ladder", "basket",  "hammer", "mirror",  "candle", "carpet",
    "bottle",  "ribbon", "teapot", "wallet",  "helmet", "puzzle",  "saddle", "trumpet", "anchor", "blanket",
    "compass", "drum",   "engine", "feather", "globe",  "lantern", "magnet", "needle",  "parcel", "rocket"};
constexpr std::array<std::string_view, 18> kPlaces = {"cellar", "attic",  "kitchen", "garden", "garage", "library",
                                                      "stable", "tower",  "cabin",   "harbor", "chapel", "studio",
                                                      "pantry", "bakery", "meadow",  "bridge", "market", "museum"};

constexpr uint32_t kFewestFacts = 3, kMostFacts = 9, kMostQuestions = 4;

struct Fact {
    std::string who, what, where;
};

struct Asked {
    std::string question, answer;
};

// The indices [0, count) in random order.
std::vector<size_t> shuffled(Random &random, size_t count) {
    std::vector<size_t> out;
    for (size_t i = 0; i < count; ++i) {
        out.push_back(i);
        std::swap(out[i], out[below(random, static_cast<uint32_t>(i + 1))]);
    }
    return out;
}

std::vector<Fact> make_facts(Random &random) {
    const std::vector<size_t> names = shuffled(random, kNames.size());
    const std::vector<size_t> things = shuffled(random, kThings.size());
    const std::vector<size_t> places = shuffled(random, kPlaces.size());
    std::vector<Fact> facts(kFewestFacts + below(random, kMostFacts - kFewestFacts + 1));
    for (size_t i = 0; i < facts.size(); ++i)
        facts[i] = {std::string(kNames[names[i]]), std::string(kThings[things[i]]), std::string(kPlaces[places[i]])};
    return facts;
}

Asked ask(Random &random, const Fact &fact) {
    switch (below(random, 3)) {
        case 0:
            return {"Where is the " + fact.what + "?", " In the " + fact.where + ".\n"};
        case 1:
            return {"Who put away the " + fact.what + "?", " " + fact.who + ".\n"};
        default:
            return {"What did " + fact.who + " put away?", " The " + fact.what + ".\n"};
    }
}

std::string facts_text(const std::vector<Fact> &facts) {
    std::string out;
    for (const Fact &fact : facts) {
        out += out.empty() ? "" : " ";
        out += fact.who + " put the " + fact.what + " in the " + fact.where + ".";
    }
    return out;
}

std::string question_text(const Asked &asked) {
    return "\nQ: " + asked.question + "\nA:";
}

} // namespace

Question make_question(Random &random, size_t most_bytes) {
    const std::vector<Fact> facts = make_facts(random);
    const std::vector<size_t> order = shuffled(random, facts.size());
    const size_t questions = 1 + below(random, std::min<uint32_t>(kMostQuestions, static_cast<uint32_t>(facts.size())));

    Question out{facts_text(facts), {}, {}};
    for (size_t i = 0; i < questions; ++i) {
        const Asked asked = ask(random, facts[order[i]]);
        const std::string longer = out.prompt + out.answer + question_text(asked);
        if (i > 0 && longer.size() + asked.answer.size() > most_bytes)
            break;
        out = {longer, asked.question, asked.answer};
    }
    return out;
}

Question sample_question() {
    return {"Mara put the drum in the attic. Felix put the lamp in the museum.\nQ: Where is the lamp?\nA:",
            "Where is the lamp?", " In the museum.\n"};
}

} // namespace llama
