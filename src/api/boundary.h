// The boundary of the C API: the fence that no exception passes, the reading of callers' structs, and the check that an
// engine is used in the process that made it.
#pragma once

#include "base/status.h"
#include "engine/engine.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>

namespace kvf {

// How many forks lie behind this process since the library was loaded.
uint32_t forks();

} // namespace kvf

struct kvf_engine {
    std::unique_ptr<kvf::Engine> engine;
    kvf::RoomTable *rooms = nullptr; // the engine's
    uint32_t forks = 0;
};

namespace kvf {

// Runs `call`, which returns a Status or an int; exceptions become statuses.
template <typename Call>
int fenced(Call call) noexcept {
    try {
        if constexpr (std::is_same_v<decltype(call()), Status>)
            return tell(call());
        else
            return call();
    } catch (const std::bad_alloc &) {
        return tell({KVF_ERR_NO_MEMORY, "out of memory"});
    } catch (const std::system_error &error) {
        return tell({KVF_ERR_SYSTEM, error.what()});
    } catch (const std::exception &error) {
        return tell({KVF_ERR_INTERNAL, error.what()});
    } catch (...) {
        return tell({KVF_ERR_INTERNAL, "something that is no std::exception was thrown"});
    }
}

inline Status check_engine(const kvf_engine *engine) {
    if (!engine)
        return fail(KVF_ERR_INVALID, "engine is NULL");
    if (engine->forks != forks())
        return fail(KVF_ERR_FORKED, "the engine was made before fork(); in the child it can only be destroyed");
    return {};
}

// As fenced, on an engine that may be used here.
template <typename Call>
int on_engine(kvf_engine *engine, Call call) noexcept {
    return fenced([&]() -> decltype(call(*engine->engine)) {
        const Status usable = check_engine(engine);
        if (!usable.ok()) {
            if constexpr (std::is_same_v<decltype(call(*engine->engine)), Status>)
                return usable;
            else
                return tell(usable);
        }
        return call(*engine->engine);
    });
}

// As on_engine, for calls that give a string: "" where it can't be given.
template <typename Call>
const char *text_of_engine(kvf_engine *engine, Call call) noexcept {
    const char *text = "";
    (void)on_engine(engine, [&](Engine &known) -> Status {
        text = call(known);
        return {};
    });
    return text;
}

inline Status check_not_null(const void *argument, const char *name) {
    return argument ? Status() : fail(KVF_ERR_INVALID, "%s is NULL", name);
}

// What the caller's struct, `size` bytes long, says of what this library knows; what is not there is zero.
template <typename T>
Status read_bytes(const void *given, size_t size, const char *name, T *out) {
    std::memset(out, 0, sizeof *out);
    std::memcpy(out, given, std::min(size, sizeof *out));
    const auto *bytes = static_cast<const unsigned char *>(given);
    for (size_t i = sizeof *out; i < size; ++i)
        if (bytes[i] != 0)
            return fail(KVF_ERR_UNSUPPORTED, "%s: byte %zu is %u; this library knows %zu bytes of it", name, i,
                        bytes[i], sizeof *out);
    return {};
}

constexpr uint32_t kMaxStruct = 65536;

template <typename T>
Status read_struct(const T *given, const char *name, T *out) {
    Status there = check_not_null(given, name);
    if (!there.ok())
        return there;
    if (given->struct_size < 2 * sizeof(uint32_t) || given->struct_size > kMaxStruct)
        return fail(KVF_ERR_INVALID, "%s: struct_size is %u; expected sizeof(%s), which is %zu", name,
                    given->struct_size, name, sizeof(T));
    return read_bytes(given, given->struct_size, name, out);
}

// A struct that may be left out: all zero then.
template <typename T>
Status read_optional(const T *given, const char *name, T *out) {
    if (given)
        return read_struct(given, name, out);
    std::memset(out, 0, sizeof *out);
    return {};
}

inline Status check_array(const void *array, size_t count, size_t stride, size_t least, const char *name) {
    if (count != 0 && !array)
        return fail(KVF_ERR_INVALID, "%s is NULL and its count %zu", name, count);
    if (count != 0 && (stride < least || stride > kMaxStruct))
        return fail(KVF_ERR_INVALID, "the stride of %s is %zu; expected the size of its struct, at least %zu", name,
                    stride, least);
    return {};
}

template <typename T>
Status read_element(const T *array, size_t stride, size_t index, const char *name, T *out) {
    return read_bytes(reinterpret_cast<const char *>(array) + index * stride, stride, name, out);
}

// Whether a struct of the caller's can be filled.
template <typename T>
Status check_struct(const T *out, const char *name) {
    if (out->struct_size < 2 * sizeof(uint32_t) || out->struct_size > kMaxStruct)
        return fail(KVF_ERR_INVALID, "%s: struct_size is %u; expected sizeof(%s), which is %zu", name, out->struct_size,
                    name, sizeof(T));
    return {};
}

// Fills the caller's struct as far as it goes; its struct_size stays.
template <typename T>
Status write_struct(const T &value, const char *name, T *out) {
    Status fits = check_struct(out, name);
    if (!fits.ok())
        return fits;
    const uint32_t size = out->struct_size;
    std::memcpy(out, &value, std::min<size_t>(size, sizeof value));
    out->struct_size = size;
    return {};
}

// Fills as many elements of the caller's array as fit; returns how many there are.
template <typename T, typename List>
int write_list(const List &list, T *array, size_t capacity, size_t stride, const char *name) {
    const Status fits = check_array(array, capacity, stride, sizeof(T), name);
    if (!fits.ok())
        return tell(fits);
    size_t index = 0;
    for (const T &item : list) {
        if (index < capacity)
            std::memcpy(reinterpret_cast<char *>(array) + index * stride, &item, sizeof item);
        ++index;
    }
    return static_cast<int>(index);
}

} // namespace kvf
