#include "pool.h"

#include <string.h>

enum { STRIDE = GUARD_BYTES + PAGE_BYTES + GUARD_BYTES, WORDS = PAGE_BYTES / 8, GUARD_WORDS = GUARD_BYTES / 8 };

static unsigned char *guard_before(pool *it, uint32_t layer, uint32_t page) {
    return it->memory + ((size_t)layer * PAGES + page) * STRIDE;
}

static unsigned char *page_at(pool *it, uint32_t layer, uint32_t page) {
    return guard_before(it, layer, page) + GUARD_BYTES;
}

/* ------------------------------------------------------------------------------------------------------- contents */

static uint64_t word_of(uint64_t key, uint32_t i) {
    const uint64_t word = key + i * 0x9e3779b97f4a7c15u;
    return word ^ (word >> 29);
}

/* The last word is the sum of the others. */
static void fill_words(unsigned char *at, uint32_t words, uint64_t key) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i + 1 < words; i++) {
        const uint64_t word = word_of(key, i);
        sum += word;
        memcpy(at + 8 * (size_t)i, &word, 8);
    }
    memcpy(at + 8 * (size_t)(words - 1), &sum, 8);
}

/* The number of the first word that is not as filled, or the number of words. */
static uint32_t check_words(const unsigned char *at, uint32_t words, uint64_t key) {
    uint64_t sum = 0, found;
    for (uint32_t i = 0; i + 1 < words; i++) {
        memcpy(&found, at + 8 * (size_t)i, 8);
        if (found != word_of(key, i))
            return i;
        sum += found;
    }
    memcpy(&found, at + 8 * (size_t)(words - 1), 8);
    return found == sum ? words : words - 1;
}

static uint64_t guard_key(uint32_t layer, uint32_t page, uint32_t behind) {
    return mix(mix(layer, page), 7000 + behind);
}

static uint64_t pattern_key(const pool *it, uint32_t layer, uint32_t page) {
    return mix(mix(layer, page), mix(it->uses[page], 8000));
}

static uint64_t cargo_key(cargo what, uint32_t layer, uint32_t place) {
    return mix(mix(what.room_id, what.generation), mix(layer, place));
}

static void set_pattern(pool *it, uint32_t page) {
    it->uses[page]++;
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        fill_words(page_at(it, layer, page), WORDS, pattern_key(it, layer, page));
}

static void check_pattern(pool *it, uint32_t page) {
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        const uint32_t word = check_words(page_at(it, layer, page), WORDS, pattern_key(it, layer, page));
        REQUIRE(word == WORDS, "page %u of layer %u was written to while it was free, from word %u on", page, layer,
                word);
    }
}

static void check_guards(pool *it, uint32_t page) {
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        const unsigned char *before = guard_before(it, layer, page);
        const unsigned char *behind = before + GUARD_BYTES + PAGE_BYTES;
        REQUIRE(check_words(before, GUARD_WORDS, guard_key(layer, page, 0)) == GUARD_WORDS &&
                    check_words(behind, GUARD_WORDS, guard_key(layer, page, 1)) == GUARD_WORDS,
                "the guard bytes around page %u of layer %u were written to", page, layer);
    }
}

/* ------------------------------------------------------------------------------------------------------- the pool */

void pool_open(pool *it, kvf_engine *engine, uint64_t seed) {
    kvf_tensor tensors[LAYERS];
    void *memory = NULL;
    memset(it, 0, sizeof *it);
    memset(tensors, 0, sizeof tensors);
    it->dice.state = seed;
    MUST(kvf_memory_alloc(engine, (size_t)LAYERS * PAGES * STRIDE, &memory));
    it->memory = memory;
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        tensors[layer].layer = layer;
        tensors[layer].base = page_at(it, layer, 0);
        tensors[layer].page_count = PAGES;
        tensors[layer].page_bytes = PAGE_BYTES;
        tensors[layer].page_stride = STRIDE;
        for (uint32_t page = 0; page < PAGES; page++) {
            unsigned char *before = guard_before(it, layer, page);
            fill_words(before, GUARD_WORDS, guard_key(layer, page, 0));
            fill_words(before + GUARD_BYTES + PAGE_BYTES, GUARD_WORDS, guard_key(layer, page, 1));
        }
    }
    for (uint32_t page = 0; page < PAGES; page++) {
        set_pattern(it, page);
        it->free[it->free_count++] = page;
    }
    MUST(kvf_engine_register(engine, tensors, LAYERS, sizeof *tensors));
}

void pool_take(pool *it, uint32_t *pages, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        REQUIRE(it->free_count > 0, "no page is free");
        const uint32_t at = roll_below(&it->dice, it->free_count);
        pages[i] = it->free[at];
        it->free[at] = it->free[--it->free_count];
        check_pattern(it, pages[i]);
    }
}

void pool_give(pool *it, const uint32_t *pages, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        check_guards(it, pages[i]);
        set_pattern(it, pages[i]);
        it->free[it->free_count++] = pages[i];
    }
}

void pool_load(pool *it, const uint32_t *pages, uint32_t count, cargo what) {
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t layer = 0; layer < LAYERS; layer++)
            fill_words(page_at(it, layer, pages[i]), WORDS, cargo_key(what, layer, i));
}

void pool_expect(pool *it, const uint32_t *pages, uint32_t count, cargo what) {
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t layer = 0; layer < LAYERS; layer++) {
            const uint32_t word = check_words(page_at(it, layer, pages[i]), WORDS, cargo_key(what, layer, i));
            REQUIRE(word == WORDS,
                    "room %llu, generation %llx: place %u (page %u) of layer %u is wrong from word %u on",
                    (unsigned long long)what.room_id, (unsigned long long)what.generation, i, pages[i], layer, word);
        }
}

void pool_check(pool *it) {
    for (uint32_t i = 0; i < it->free_count; i++)
        check_pattern(it, it->free[i]);
    for (uint32_t page = 0; page < PAGES; page++)
        check_guards(it, page);
}
