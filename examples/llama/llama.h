// A Llama: computes one token of a sequence at a time, reading and writing the sequence's pages of a KV pool.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint.h"
#include "pages.h"
#include "tokenizer.h"

namespace llama {

class Llama {
  public:
    explicit Llama(const std::string &checkpoint_path);

    const Config &config() const;

    // Runs the token at its position: its keys and values go into the page of that position, its attention reads all
    // earlier ones. pages are the sequence's, in order, and must reach the position. Fails when the token is not of
    // the vocabulary or the position not below max_tokens.
    void forward(Token token, uint32_t position, const KvPool &pool, std::span<const uint32_t> pages);

    // The likeliest token after the last forward.
    Token next();

  private:
    void attention(uint32_t layer, uint32_t position, const KvPool &pool, std::span<const uint32_t> pages);
    void feed_forward(uint32_t layer);
    void add(std::span<const float> change); // to the residual stream

    Checkpoint checkpoint_;
    size_t dim_, head_size_, kv_dim_, hidden_dim_;
    std::vector<float> cosine_, sine_; // [max_tokens, head_size / 2]
    std::vector<float> stream_;        // the residual stream, [dim]
    std::vector<float> normed_, mixed_, query_, out_;
    std::vector<float> gate_, up_; // [hidden_dim]
    std::vector<float> scores_;    // [max_tokens]
    std::vector<float> logits_;    // [vocab]
};

} // namespace llama
