#include "kernels.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace llama {
namespace {

// Eight sums that do not wait for each other: the compiler may not reorder one float sum by itself.
float dot(const float *a, const float *b, size_t count) {
    constexpr size_t kLanes = 8;
    std::array<float, kLanes> lanes{};
    size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        for (size_t lane = 0; lane < kLanes; ++lane)
            lanes[lane] += a[i + lane] * b[i + lane];
    }
    float sum = 0;
    for (const float lane : lanes)
        sum += lane;
    for (; i < count; ++i)
        sum += a[i] * b[i];
    return sum;
}

// Scores to weights that sum to 1.
void softmax(std::span<float> values) {
    const float most = *std::max_element(values.begin(), values.end());
    float sum = 0;
    for (float &value : values) {
        value = std::exp(value - most);
        sum += value;
    }
    for (float &value : values)
        value /= sum;
}

// Calls visit(token, row) for the first `tokens` rows.
template <typename Visit>
void for_each_row(const PagedRows &rows, size_t tokens, Visit visit) {
    for (size_t first = 0; first < tokens; first += rows.page_tokens) {
        const float *row = rows.page(first / rows.page_tokens);
        const size_t end = std::min(tokens, first + rows.page_tokens);
        for (size_t token = first; token < end; ++token, row += rows.row_floats)
            visit(token, row);
    }
}

} // namespace

void multiply(std::span<float> out, const float *matrix, std::span<const float> in) {
    for (float &value : out) {
        value = dot(matrix, in.data(), in.size());
        matrix += in.size();
    }
}

void normalize(std::span<float> out, std::span<const float> in, const float *gain) {
    const float mean_square = dot(in.data(), in.data(), in.size()) / static_cast<float>(in.size());
    const float scale = 1.0F / std::sqrt(mean_square + 1e-5F);
    for (size_t i = 0; i < out.size(); ++i)
        out[i] = in[i] * scale * gain[i];
}

void rotate(std::span<float> heads, std::span<const float> cosine, std::span<const float> sine) {
    const size_t pairs = cosine.size();
    for (size_t i = 0; i < heads.size(); i += 2) {
        const size_t pair = i / 2 % pairs;
        const float a = heads[i], b = heads[i + 1];
        heads[i] = a * cosine[pair] - b * sine[pair];
        heads[i + 1] = a * sine[pair] + b * cosine[pair];
    }
}

void gate_silu(std::span<float> gate, std::span<const float> up) {
    for (size_t i = 0; i < gate.size(); ++i)
        gate[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i];
}

void attend(std::span<float> out, std::span<const float> query, const PagedRows &keys, const PagedRows &values,
            size_t offset, std::span<float> scores) {
    const float scale = 1.0F / std::sqrt(static_cast<float>(query.size()));
    for_each_row(keys, scores.size(), [&](size_t token, const float *row) {
        scores[token] = dot(query.data(), row + offset, query.size()) * scale;
    });
    softmax(scores);
    std::fill(out.begin(), out.end(), 0.0F);
    for_each_row(values, scores.size(), [&](size_t token, const float *row) {
        for (size_t i = 0; i < out.size(); ++i)
            out[i] += scores[token] * row[offset + i];
    });
}

size_t greatest(std::span<const float> values) {
    return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

} // namespace llama
