#include "blob.h"

#include <cinttypes>
#include <cstring>

namespace shm {
namespace {

template <typename Blob>
Status encode_as(Blob value, void *blob, size_t *size) {
    const size_t room = *size;
    *size = sizeof value;
    if (blob == nullptr || room < sizeof value)
        return fail(KVF_ERR_RANGE, "the buffer for the %s has %zu bytes; it takes %zu", Blob::kName, room,
                    sizeof value);
    value.header = {Blob::kMagic, Blob::kVersion, sizeof value};
    memcpy(blob, &value, sizeof value);
    return {};
}

template <typename Blob>
Status decode_as(const void *blob, size_t size, Blob &value) {
    BlobHeader header{};
    if (blob == nullptr || size < sizeof header)
        return fail(KVF_ERR_PROTOCOL, "the peer's %s has %zu bytes, too few to be one", Blob::kName, size);
    memcpy(&header, blob, sizeof header);
    if (header.magic != Blob::kMagic)
        return fail(KVF_ERR_PROTOCOL, "the peer's %s begins with %08" PRIx32 ", one of shm with %08" PRIx32,
                    Blob::kName, header.magic, Blob::kMagic);
    if (header.version != Blob::kVersion)
        return fail(KVF_ERR_PROTOCOL, "the peer's %s is of version %u, this is shm of version %u", Blob::kName,
                    header.version, Blob::kVersion);
    if (size != sizeof value || header.size != sizeof value)
        return fail(KVF_ERR_PROTOCOL, "the peer's %s has %zu bytes and says %u; it must have %zu", Blob::kName, size,
                    header.size, sizeof value);
    memcpy(&value, blob, sizeof value);
    return {};
}

} // namespace

Status encode(Address address, void *blob, size_t *size) {
    return encode_as(address, blob, size);
}
Status encode(Greeting greeting, void *blob, size_t *size) {
    return encode_as(greeting, blob, size);
}
Status encode(Key key, void *blob, size_t *size) {
    return encode_as(key, blob, size);
}

Status decode(const void *blob, size_t size, Address &address) {
    return decode_as(blob, size, address);
}
Status decode(const void *blob, size_t size, Greeting &greeting) {
    return decode_as(blob, size, greeting);
}
Status decode(const void *blob, size_t size, Key &key) {
    return decode_as(blob, size, key);
}

} // namespace shm
