// A model file in the llama2.c format, mapped and checked: the shape of the model and where its weights lie.
#pragma once

#include <cstdint>
#include <string>

#include "mapped_file.h"

namespace llama {

struct Config {
    int32_t dim = 0;        // width of the residual stream
    int32_t hidden_dim = 0; // width inside the feed-forward layers
    int32_t layers = 0;
    int32_t heads = 0;    // of queries
    int32_t kv_heads = 0; // of keys and values; heads / kv_heads query heads share one
    int32_t vocab = 0;
    int32_t max_tokens = 0; // positions a sequence may have

    int32_t head_size() const { return dim / heads; }
    int32_t kv_dim() const { return kv_heads * head_size(); }
};

// Row-major matrices; those of the layers follow each other. They point into the mapped file.
struct Weights {
    const float *embedding = nullptr;      // [vocab, dim]
    const float *attention_norm = nullptr; // [layers, dim]
    const float *wq = nullptr;             // [layers, dim, dim]
    const float *wk = nullptr;             // [layers, kv_dim, dim]
    const float *wv = nullptr;             // [layers, kv_dim, dim]
    const float *wo = nullptr;             // [layers, dim, dim]
    const float *ffn_norm = nullptr;       // [layers, dim]
    const float *w1 = nullptr;             // [layers, hidden_dim, dim]
    const float *w2 = nullptr;             // [layers, dim, hidden_dim]
    const float *w3 = nullptr;             // [layers, hidden_dim, dim]
    const float *final_norm = nullptr;     // [dim]
    const float *classifier = nullptr;     // [vocab, dim]; the embedding where the two are shared
};

class Checkpoint {
  public:
    // Fails, naming the file, the field and both values, when the header or the size is not that of a checkpoint.
    explicit Checkpoint(const std::string &path);

    const Config &config() const { return config_; }
    const Weights &weights() const { return weights_; }

  private:
    MappedFile file_;
    Config config_;
    Weights weights_;
};

} // namespace llama
