// The arithmetic of a Llama on plain arrays. No state; sizes in floats.
#pragma once

#include <cstddef>
#include <span>

namespace llama {

// Reads a sequence's rows in page order; `rows` gives the first row of the page that holds token t = 0, 16, 32, ...
struct PagedRows {
    const float *tensor;
    size_t row_floats;
    size_t page_tokens;
    std::span<const unsigned> pages;

    const float *page(size_t index) const { return tensor + pages[index] * page_tokens * row_floats; }
};

// out[i] = row i of the matrix [out.size(), in.size()] times in.
void multiply(std::span<float> out, const float *matrix, std::span<const float> in);

// out = in scaled to a root mean square of 1, times the gain of each value.
void normalize(std::span<float> out, std::span<const float> in, const float *gain);

// Turns each pair of neighbours in each head by the angle of its place: cosine and sine have head_size / 2 values.
void rotate(std::span<float> heads, std::span<const float> cosine, std::span<const float> sine);

// gate[i] = silu(gate[i]) * up[i].
void gate_silu(std::span<float> gate, std::span<const float> up);

// The attention of one query head over the first `tokens` rows; offset is where the head's key and value begin in a
// row. out and query have head_size values; scores is scratch for `tokens` values.
void attend(std::span<float> out, std::span<const float> query, const PagedRows &keys, const PagedRows &values,
            size_t offset, std::span<float> scores);

// The index of the greatest value; the first one of equals.
size_t greatest(std::span<const float> values);

} // namespace llama
