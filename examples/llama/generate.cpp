#include "generate.h"

#include <deque>
#include <numeric>

namespace llama {

bool is_last(Token token, uint32_t count, const Limit &limit) {
    return token == kBegin || token == kEnd || token == limit.stop || count >= limit.max_tokens;
}

std::vector<Token> generate(Llama &model, std::span<const Token> prompt, const Limit &limit) {
    std::vector<uint32_t> pages(pages_for(positions_for(prompt.size(), limit.max_tokens)));
    std::iota(pages.begin(), pages.end(), 0U);
    std::deque<std::vector<float>> memory;
    const KvPool pool(model.config(), static_cast<uint32_t>(pages.size()),
                      [&](size_t bytes) { return memory.emplace_back(bytes / sizeof(float)).data(); });

    uint32_t position = 0;
    for (const Token token : prompt)
        model.forward(token, position++, pool, pages);
    std::vector<Token> out{model.next()};
    while (!is_last(out.back(), static_cast<uint32_t>(out.size()), limit)) {
        model.forward(out.back(), position++, pool, pages);
        out.push_back(model.next());
    }
    return out;
}

} // namespace llama
