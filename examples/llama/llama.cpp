#include "llama.h"

#include <algorithm>
#include <cmath>

#include "kernels.h"
#include "text.h"

namespace llama {

Llama::Llama(const std::string &checkpoint_path)
    : checkpoint_(checkpoint_path),
      dim_(static_cast<size_t>(config().dim)),
      head_size_(static_cast<size_t>(config().head_size())),
      kv_dim_(static_cast<size_t>(config().kv_dim())),
      hidden_dim_(static_cast<size_t>(config().hidden_dim)),
      stream_(dim_),
      normed_(dim_),
      mixed_(dim_),
      query_(dim_),
      out_(dim_),
      gate_(hidden_dim_),
      up_(hidden_dim_),
      scores_(static_cast<size_t>(config().max_tokens)),
      logits_(static_cast<size_t>(config().vocab)) {
    for (int32_t position = 0; position < config().max_tokens; ++position) {
        for (size_t i = 0; i < head_size_; i += 2) {
            const float turn = 1.0F / std::pow(10000.0F, static_cast<float>(i) / static_cast<float>(head_size_));
            const float angle = static_cast<float>(position) * turn;
            cosine_.push_back(std::cos(angle));
            sine_.push_back(std::sin(angle));
        }
    }
}

const Config &Llama::config() const {
    return checkpoint_.config();
}

void Llama::forward(Token token, uint32_t position, const KvPool &pool, std::span<const uint32_t> pages) {
    const Config &shape = config();
    if (token < 0 || token >= shape.vocab)
        fail("token %d is outside the model's vocabulary, which has %d", token, shape.vocab);
    if (position >= static_cast<uint32_t>(shape.max_tokens))
        fail("position %u is too far for the model, which has %d", position, shape.max_tokens);
    if (position / kPageTokens >= pages.size())
        fail("position %u is outside the sequence's %zu pages of %u tokens", position, pages.size(), kPageTokens);

    const float *row = checkpoint_.weights().embedding + static_cast<size_t>(token) * dim_;
    std::copy(row, row + dim_, stream_.begin());
    for (uint32_t layer = 0; layer < static_cast<uint32_t>(shape.layers); ++layer) {
        attention(layer, position, pool, pages);
        feed_forward(layer);
    }
}

void Llama::attention(uint32_t layer, uint32_t position, const KvPool &pool, std::span<const uint32_t> pages) {
    const Weights &weights = checkpoint_.weights();
    const uint32_t page = pages[position / kPageTokens];
    const std::span<float> key(pool.row(layer, kKeys, page, position % kPageTokens), kv_dim_);
    const std::span<float> value(pool.row(layer, kValues, page, position % kPageTokens), kv_dim_);
    normalize(normed_, stream_, weights.attention_norm + layer * dim_);
    multiply(query_, weights.wq + layer * dim_ * dim_, normed_);
    multiply(key, weights.wk + layer * kv_dim_ * dim_, normed_);
    multiply(value, weights.wv + layer * kv_dim_ * dim_, normed_);

    const size_t pairs = head_size_ / 2;
    const std::span<const float> cosine(cosine_.data() + position * pairs, pairs);
    const std::span<const float> sine(sine_.data() + position * pairs, pairs);
    rotate(query_, cosine, sine);
    rotate(key, cosine, sine);

    const PagedRows keys{pool.tensor(layer, kKeys), kv_dim_, kPageTokens, pages};
    const PagedRows values{pool.tensor(layer, kValues), kv_dim_, kPageTokens, pages};
    const std::span<float> scores(scores_.data(), position + 1);
    const size_t queries_per_key = dim_ / kv_dim_;
    for (size_t head = 0; head < dim_ / head_size_; ++head) {
        const std::span<const float> query(query_.data() + head * head_size_, head_size_);
        const std::span<float> mixed(mixed_.data() + head * head_size_, head_size_);
        attend(mixed, query, keys, values, head / queries_per_key * head_size_, scores);
    }
    multiply(out_, weights.wo + layer * dim_ * dim_, mixed_);
    add(out_);
}

void Llama::feed_forward(uint32_t layer) {
    const Weights &weights = checkpoint_.weights();
    normalize(normed_, stream_, weights.ffn_norm + layer * dim_);
    multiply(gate_, weights.w1 + layer * hidden_dim_ * dim_, normed_);
    multiply(up_, weights.w3 + layer * hidden_dim_ * dim_, normed_);
    gate_silu(gate_, up_);
    multiply(out_, weights.w2 + layer * dim_ * hidden_dim_, gate_);
    add(out_);
}

void Llama::add(std::span<const float> change) {
    for (size_t i = 0; i < dim_; ++i)
        stream_[i] += change[i];
}

Token Llama::next() {
    normalize(normed_, stream_, checkpoint_.weights().final_norm);
    multiply(logits_, checkpoint_.weights().classifier, normed_);
    return static_cast<Token>(greatest(logits_));
}

} // namespace llama
