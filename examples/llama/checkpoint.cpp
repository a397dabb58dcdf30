#include "checkpoint.h"

#include <cinttypes>
#include <cstring>

#include "text.h"

namespace llama {
namespace {

constexpr size_t kHeaderFields = 7;
constexpr size_t kHeaderBytes = kHeaderFields * sizeof(int32_t);

struct Header {
    Config config;
    bool shared_classifier;
};

// The upper bounds keep every product of two or three fields far from 2^64, and are far from any real model.
void check_field(const std::string &path, const char *name, int64_t value, int64_t most) {
    if (value < 1 || value > most)
        fail("%s: %s is %" PRId64 ", expected 1 to %" PRId64, path.c_str(), name, value, most);
}

void check_divides(const std::string &path, const char *name, int32_t value, const char *whole_name, int32_t whole) {
    if (whole % value != 0)
        fail("%s: %s is %d, expected a divisor of %s, which is %d", path.c_str(), name, value, whole_name, whole);
}

Header read_header(const std::string &path, const MappedFile &file) {
    if (file.size() < kHeaderBytes)
        fail("%s: has %zu bytes, expected a checkpoint, whose header has %zu", path.c_str(), file.size(), kHeaderBytes);
    int32_t field[kHeaderFields];
    std::memcpy(field, file.data(), kHeaderBytes);
    // A negative vocabulary size marks a classifier of its own behind the other weights.
    const int64_t vocab = field[5] < 0 ? -int64_t{field[5]} : field[5];
    check_field(path, "dim", field[0], 1 << 16);
    check_field(path, "hidden_dim", field[1], 1 << 20);
    check_field(path, "n_layers", field[2], 1 << 12);
    check_field(path, "n_heads", field[3], 1 << 12);
    check_field(path, "n_kv_heads", field[4], 1 << 12);
    check_field(path, "vocab_size", vocab, 1 << 24);
    check_field(path, "max_seq_len", field[6], 1 << 24);
    check_divides(path, "n_heads", field[3], "dim", field[0]);
    check_divides(path, "n_kv_heads", field[4], "n_heads", field[3]);
    const int32_t head_size = field[0] / field[3];
    if (head_size % 2 != 0)
        fail("%s: dim / n_heads is %d, expected an even number, as positions turn pairs of values", path.c_str(),
             head_size);
    return {{field[0], field[1], field[2], field[3], field[4], static_cast<int32_t>(vocab), field[6]}, field[5] > 0};
}

} // namespace

Checkpoint::Checkpoint(const std::string &path) : file_(path) {
    const Header header = read_header(path, file_);
    config_ = header.config;
    const auto dim = static_cast<uint64_t>(config_.dim);
    const auto hidden = static_cast<uint64_t>(config_.hidden_dim);
    const auto layers = static_cast<uint64_t>(config_.layers);
    const auto kv_dim = static_cast<uint64_t>(config_.kv_dim());
    const uint64_t table = static_cast<uint64_t>(config_.vocab) * dim;
    const uint64_t angles = static_cast<uint64_t>(config_.max_tokens) * static_cast<uint64_t>(config_.head_size() / 2);

    // In the order of the file. The tables of cosines and sines are there for old readers; they are computed here.
    const struct {
        const float **place;
        uint64_t count;
    } tensors[] = {
        {&weights_.embedding, table},
        {&weights_.attention_norm, layers * dim},
        {&weights_.wq, layers * dim * dim},
        {&weights_.wk, layers * kv_dim * dim},
        {&weights_.wv, layers * kv_dim * dim},
        {&weights_.wo, layers * dim * dim},
        {&weights_.ffn_norm, layers * dim},
        {&weights_.w1, layers * hidden * dim},
        {&weights_.w2, layers * dim * hidden},
        {&weights_.w3, layers * hidden * dim},
        {&weights_.final_norm, dim},
        {nullptr, 2 * angles},
        {&weights_.classifier, header.shared_classifier ? 0 : table},
    };
    uint64_t total = kHeaderBytes;
    for (const auto &tensor : tensors)
        total += tensor.count * sizeof(float);
    if (total != file_.size())
        fail("%s: has %zu bytes, expected %" PRIu64
             " for dim %d, hidden_dim %d, n_layers %d, n_heads %d, n_kv_heads %d, vocab_size %d, max_seq_len %d",
             path.c_str(), file_.size(), total, config_.dim, config_.hidden_dim, config_.layers, config_.heads,
             config_.kv_heads, header.shared_classifier ? config_.vocab : -config_.vocab, config_.max_tokens);

    // The mapping is page-aligned and the header a multiple of four bytes, so every float is aligned.
    const auto *next = reinterpret_cast<const float *>(file_.data() + kHeaderBytes);
    for (const auto &tensor : tensors) {
        if (tensor.place != nullptr)
            *tensor.place = next;
        next += tensor.count;
    }
    if (header.shared_classifier)
        weights_.classifier = weights_.embedding;
}

} // namespace llama
