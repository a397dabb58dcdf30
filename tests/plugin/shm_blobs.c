/* Addresses and keys as a peer that lies, or that is broken, would send them. Where their fields lie is the plugin's
 * business: the tests find them by the values that they know. */
#define _GNU_SOURCE
#include "shm_child.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES = 16 * PAGE };

typedef struct pair {
    side ours, theirs;
    kvf_peer *peer; /* theirs, connected */
} pair;

static int set_up(void **state) {
    pair *it = calloc(1, sizeof *it);
    assert_non_null(it);
    side_open(&it->ours, MEMORY_SEALED, BYTES, "");
    side_open(&it->theirs, MEMORY_SEALED, BYTES, "");
    expect_status(KVF_OK, link_connect(&it->ours, &it->theirs.address, &it->peer));
    *state = it;
    return 0;
}

static int tear_down(void **state) {
    pair *it = *state;
    shm_ops()->peer_destroy(it->peer);
    side_close(&it->theirs);
    side_close(&it->ours);
    free(it);
    return 0;
}

/* Puts a value in the place of one that stands in the blob exactly once. */
static void patch(blob *it, const void *old, const void *new, size_t size) {
    unsigned char *place = memmem(it->bytes, it->size, old, size);
    assert_non_null(place);
    const size_t behind = (size_t)(place - it->bytes) + size;
    assert_null(memmem(place + size, it->size - behind, old, size));
    memcpy(place, new, size);
}

static void patch_u64(blob *it, uint64_t old, uint64_t new) {
    patch(it, &old, &new, sizeof old);
}

/* What link_connect returns; the peer is gone again. */
static int try_address(const pair *it, const blob *address) {
    kvf_peer *peer = NULL;
    const int status = link_connect(&it->ours, address, &peer);
    if (peer != NULL)
        shm_ops()->peer_destroy(peer);
    return status;
}

static int try_key(const pair *it, const blob *key) {
    kvf_remote *remote = NULL;
    const int status = shm_ops()->import_key(it->peer, key->bytes, key->size, &remote);
    if (status == KVF_OK)
        shm_ops()->release_key(it->peer, remote);
    else
        assert_null(remote);
    return status;
}

static void buffer_that_is_too_small_is_told_the_size(void **state) {
    pair *it = *state;
    unsigned char buffer[BLOB_BYTES];
    size_t size = 0;
    expect_status(KVF_ERR_RANGE, shm_ops()->address(it->ours.instance, NULL, &size));
    assert_int_equal(size, it->ours.address.size);
    --size;
    memset(buffer, 0xee, sizeof buffer);
    expect_status(KVF_ERR_RANGE, shm_ops()->address(it->ours.instance, buffer, &size));
    assert_int_equal(buffer[0], 0xee);
    expect_status(KVF_OK, shm_ops()->address(it->ours.instance, buffer, &size));
    size = 1;
    expect_status(KVF_ERR_RANGE, shm_ops()->export_key(it->ours.instance, it->ours.region, buffer, &size));
    assert_int_equal(size, it->ours.key.size);
}

static void blobs_of_another_length_are_refused(void **state) {
    pair *it = *state;
    blob address = it->theirs.address, key = it->theirs.key;
    for (address.size = 0; address.size < it->theirs.address.size; ++address.size)
        expect_status(KVF_ERR_PROTOCOL, try_address(it, &address));
    ++address.size;
    expect_status(KVF_ERR_PROTOCOL, try_address(it, &address));
    for (key.size = 0; key.size < it->theirs.key.size; ++key.size)
        expect_status(KVF_ERR_PROTOCOL, try_key(it, &key));
    ++key.size;
    expect_status(KVF_ERR_PROTOCOL, try_key(it, &key));
    kvf_remote *remote = NULL;
    expect_status(KVF_ERR_PROTOCOL, shm_ops()->import_key(it->peer, NULL, 0, &remote));
}

static void address_is_no_key_and_key_no_address(void **state) {
    pair *it = *state;
    expect_status(KVF_ERR_PROTOCOL, try_address(it, &it->theirs.key));
    expect_words("begins with");
    expect_status(KVF_ERR_PROTOCOL, try_key(it, &it->theirs.address));
    expect_words("begins with");
}

/* How many bits of the address can be flipped one by one without notice. */
static int unnoticed_bits(const side *from, const blob *good) {
    int count = 0;
    for (size_t bit = 0; bit < good->size * 8; ++bit) {
        kvf_peer *peer = NULL;
        blob address = *good;
        address.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        const int status = link_connect(from, &address, &peer);
        if (peer != NULL)
            shm_ops()->peer_destroy(peer);
        count += status == KVF_OK;
        /* Another process's number may be one that we are not permitted to look at. */
        if (status != KVF_OK && status != KVF_ERR_PROTOCOL && status != KVF_ERR_UNREACHABLE &&
            status != KVF_ERR_PERMISSION)
            fail_msg("bit %zu flipped gives %d: %s", bit, status, shm_sentence());
    }
    return count;
}

/* The peer in a process of its own: in this one its cookie stands in more than one place, since we have it mapped. */
static void every_flipped_bit_of_an_address_is_noticed(void **state) {
    (void)state;
    const struct {
        const char *options;
        int unused; /* bits of the address that only the other way needs: where the cookie is for that */
    } ways[] = {{"", 0}, {"cma=off", 64}, {"cma=only", 32 + 128}};
    const child_setup setup = {MEMORY_SEALED, BYTES, "", NULL};
    child other;
    assert_true(child_start(&other, &setup));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; ++i) {
        side ours;
        side_open(&ours, MEMORY_SEALED, BYTES, ways[i].options);
        assert_int_equal(unnoticed_bits(&ours, &other.address), ways[i].unused);
        side_close(&ours);
    }
    child_stop(&other);
}

static void peer_whose_cookie_was_never_found_is_not_fenced_while_its_process_lives(void **state) {
    pair *it = *state;
    blob address = it->theirs.address;
    /* The nonce of theirs, which its key has behind the head, becomes ours. */
    patch(&address, it->theirs.key.bytes + 8, it->ours.key.bytes + 8, 16);
    kvf_peer *peer = NULL;
    expect_status(KVF_ERR_UNREACHABLE, link_connect(&it->ours, &address, &peer));
    expect_status(KVF_ERR_BUSY, shm_ops()->fence(peer));
    shm_ops()->peer_destroy(peer);
}

static void no_flipped_bit_of_a_key_makes_room_that_is_not_there(void **state) {
    pair *it = *state;
    for (size_t bit = 0; bit < it->theirs.key.size * 8; ++bit) {
        shm_link link = {it->peer, NULL};
        blob key = it->theirs.key;
        key.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        if (shm_ops()->import_key(link.peer, key.bytes, key.size, &link.remote) != KVF_OK)
            continue;
        /* Mapped then, so not outside of what the memfd has; were it taken for more, this would end in a signal. */
        assert_int_equal(side_counter(&it->ours, "open_mapped_bytes"), BYTES);
        uint64_t low = 0;
        for (uint64_t step = BYTES; step > 0; step /= 2) {
            const kvf_segment segment = segment_of(&it->ours, &link, 0, low + step - 1, 1);
            if (transfer(&it->ours, &link, KVF_OP_READ, &segment, 1).refused == KVF_OK)
                low += step;
        }
        assert_in_range(low, 1, BYTES);
        shm_ops()->release_key(link.peer, link.remote);
    }
}

static void random_bytes_are_refused(void **state) {
    pair *it = *state;
    blob noise = {.size = it->theirs.address.size};
    for (uint32_t seed = 0; seed < 2000; ++seed) {
        memory_fill(noise.bytes, sizeof noise.bytes, seed);
        noise.size = seed % 2 == 0 ? it->theirs.address.size : it->theirs.key.size;
        expect_status(KVF_ERR_PROTOCOL, try_address(it, &noise));
        expect_status(KVF_ERR_PROTOCOL, try_key(it, &noise));
        /* Behind a head that is right. */
        noise.size = it->theirs.address.size;
        memcpy(noise.bytes, it->theirs.address.bytes, 8);
        assert_int_not_equal(try_address(it, &noise), KVF_OK);
        noise.size = it->theirs.key.size;
        memcpy(noise.bytes, it->theirs.key.bytes, 8);
        expect_status(KVF_ERR_PROTOCOL, try_key(it, &noise));
    }
}

/* The boot id as it stands in an address: the UUID's sixteen bytes. */
static void read_boot_id(unsigned char id[16], char digits[33]) {
    char line[64] = "";
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY);
    assert_true(read(fd, line, sizeof line - 1) > 0);
    close(fd);
    size_t count = 0;
    for (const char *c = line; *c != '\0' && count < 32; ++c) {
        if (*c != '-')
            digits[count++] = *c;
    }
    digits[count] = '\0';
    for (size_t i = 0; i < 16; ++i) {
        unsigned byte = 0;
        assert_int_equal(sscanf(digits + 2 * i, "%2x", &byte), 1);
        id[i] = (unsigned char)byte;
    }
}

static void peer_of_another_host_is_unreachable_and_both_are_named(void **state) {
    pair *it = *state;
    unsigned char ours[16], other[16] = "another host ...";
    char digits[33];
    read_boot_id(ours, digits);
    blob address = it->theirs.address;
    patch(&address, ours, other, 16);
    expect_status(KVF_ERR_UNREACHABLE, try_address(it, &address));
    expect_words("another host");
    expect_words(digits);
    expect_words("616e6f7468657220686f7374202e2e2e");
    /* It cannot reach us either. */
    kvf_peer *peer = NULL;
    expect_status(KVF_OK, link_create(&it->ours, &address, &peer));
    expect_status(KVF_OK, shm_ops()->fence(peer));
    shm_ops()->peer_destroy(peer);
}

static void peer_of_another_pid_namespace_is_unreachable_and_both_are_named(void **state) {
    pair *it = *state;
    struct stat ns;
    assert_int_equal(stat("/proc/self/ns/pid", &ns), 0);
    blob address = it->theirs.address;
    patch_u64(&address, ns.st_ino, 4026539999u);
    expect_status(KVF_ERR_UNREACHABLE, try_address(it, &address));
    expect_words("pid namespace");
    expect_words("4026539999");
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)ns.st_ino);
    expect_words(number);
}

static void key_of_another_instance_is_refused(void **state) {
    pair *it = *state;
    expect_status(KVF_ERR_PROTOCOL, try_key(it, &it->ours.key));
    expect_words("another instance");
}

/* The key of their region, with another descriptor in it. */
static blob key_with_file(const pair *it, int fd, uint64_t device, uint64_t inode) {
    struct stat real;
    assert_int_equal(fstat(it->theirs.memory.fd, &real), 0);
    blob key = it->theirs.key;
    const uint64_t old_file[2] = {real.st_dev, real.st_ino}, new_file[2] = {device, inode};
    patch(&key, old_file, new_file, sizeof old_file);
    /* The descriptor stands right behind the file and the offset of 0. */
    unsigned char *place = memmem(key.bytes, key.size, new_file, sizeof new_file);
    memcpy(place + sizeof new_file + sizeof(uint64_t), &fd, sizeof fd);
    return key;
}

static int try_descriptor(const pair *it, int fd) {
    struct stat entry;
    assert_int_equal(fstat(fd, &entry), 0);
    const blob key = key_with_file(it, fd, entry.st_dev, entry.st_ino);
    return try_key(it, &key);
}

static void key_of_the_wrong_inode_is_refused(void **state) {
    pair *it = *state;
    struct stat real;
    assert_int_equal(fstat(it->theirs.memory.fd, &real), 0);
    blob key = key_with_file(it, it->theirs.memory.fd, real.st_dev, real.st_ino + 1);
    expect_status(KVF_ERR_PROTOCOL, try_key(it, &key));
    expect_words("inode");
    key = key_with_file(it, it->theirs.memory.fd, real.st_dev + 1, real.st_ino);
    expect_status(KVF_ERR_PROTOCOL, try_key(it, &key));
    key = key_with_file(it, it->ours.memory.fd, real.st_dev, real.st_ino);
    expect_status(KVF_ERR_PROTOCOL, try_key(it, &key));
    key = key_with_file(it, 1000000, real.st_dev, real.st_ino);
    expect_status(KVF_ERR_PROTOCOL, try_key(it, &key));
    expect_words("1000000");
    key = key_with_file(it, -2, real.st_dev, real.st_ino);
    expect_status(KVF_ERR_RANGE, try_key(it, &key));
}

static void unsealed_memfd_is_refused(void **state) {
    pair *it = *state;
    memory loose = memory_new(MEMORY_LOOSE, BYTES);
    expect_status(KVF_ERR_UNSUPPORTED, try_descriptor(it, loose.fd));
    expect_words("F_SEAL_SHRINK");
    kvf_region *region = NULL;
    expect_status(KVF_ERR_UNSUPPORTED, side_register(&it->ours, &loose, 0, BYTES, &region));
    expect_words("F_SEAL_SHRINK");
    assert_null(region);
    /* With another seal it is no better. */
    assert_int_equal(fcntl(loose.fd, F_ADD_SEALS, F_SEAL_GROW), 0);
    expect_status(KVF_ERR_UNSUPPORTED, try_descriptor(it, loose.fd));
    memory_free(&loose);
}

static void memfd_that_cannot_be_mapped_leaves_cross_memory_attach(void **state) {
    pair *it = *state;
    const int fd = memfd_create("shm-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE), 0);
    expect_status(KVF_OK, try_descriptor(it, fd));
    assert_int_equal(side_counter(&it->ours, "open_mapped_bytes"), 0);
    close(fd);
}

static void descriptor_that_is_no_memfd_is_refused(void **state) {
    pair *it = *state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    char path[] = "/tmp/kvferry-shm-XXXXXX";
    const int file = mkstemp(path), null = open("/dev/null", O_RDWR), folder = open("/", O_RDONLY | O_DIRECTORY);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ftruncate(file, BYTES), 0);
    expect_status(KVF_ERR_PROTOCOL, try_descriptor(it, ends[0]));
    expect_status(KVF_ERR_PROTOCOL, try_descriptor(it, ends[1]));
    expect_status(KVF_ERR_PROTOCOL, try_descriptor(it, null));
    expect_status(KVF_ERR_PROTOCOL, try_descriptor(it, folder));
    expect_status(KVF_ERR_UNSUPPORTED, try_descriptor(it, file));
    expect_words("no memfd");
    const int all[] = {ends[0], ends[1], file, null, folder};
    for (size_t i = 0; i < 5; ++i)
        close(all[i]);
}

static void fifo_that_nobody_writes_does_not_hold_up_the_import(void **state) {
    pair *it = *state;
    char path[] = "/tmp/kvferry-shm-XXXXXX";
    assert_non_null(mkdtemp(path));
    char fifo[64];
    snprintf(fifo, sizeof fifo, "%s/fifo", path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const int fd = open(fifo, O_RDONLY | O_NONBLOCK);
    expect_status(KVF_ERR_PROTOCOL, try_descriptor(it, fd));
    close(fd);
    unlink(fifo);
    rmdir(path);
}

static void key_that_leaves_the_memfd_is_refused(void **state) {
    pair *it = *state;
    kvf_region *region = NULL;
    expect_status(KVF_OK, side_register(&it->theirs, &it->theirs.memory, PAGE, 5 * PAGE, &region));
    blob good = {.size = BLOB_BYTES};
    expect_status(KVF_OK, shm_ops()->export_key(it->theirs.instance, region, good.bytes, &good.size));
    const uint64_t lengths[] = {BYTES - PAGE + 1, UINT64_MAX, UINT64_MAX - PAGE + 1, UINT64_C(1) << 63, 0};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i) {
        blob key = good;
        patch_u64(&key, 5 * PAGE, lengths[i]);
        expect_status(KVF_ERR_RANGE, try_key(it, &key));
    }
    const uint64_t offsets[] = {BYTES - 5 * PAGE + 1, BYTES, UINT64_MAX, UINT64_MAX - 5 * PAGE + 1,
                                UINT64_MAX - 5 * PAGE};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; ++i) {
        blob key = good;
        patch_u64(&key, PAGE, offsets[i]);
        expect_status(KVF_ERR_RANGE, try_key(it, &key));
    }
    blob key = good;
    patch_u64(&key, (uintptr_t)it->theirs.memory.base + PAGE, UINT64_MAX - PAGE);
    expect_status(KVF_ERR_RANGE, try_key(it, &key));
    expect_status(KVF_OK, try_key(it, &good));
    shm_ops()->deregister_region(it->theirs.instance, region);
}

static void regions_that_hold_nothing_or_leave_their_memfd_are_refused(void **state) {
    pair *it = *state;
    const memory *mine = &it->ours.memory;
    kvf_region *region = NULL;
    expect_status(KVF_ERR_EMPTY, side_register(&it->ours, mine, 0, 0, &region));
    expect_status(KVF_ERR_RANGE, side_register(&it->ours, mine, 0, BYTES + 1, &region));
    expect_status(KVF_ERR_RANGE, side_register(&it->ours, mine, PAGE, BYTES, &region));
    expect_status(KVF_ERR_RANGE, side_register(&it->ours, mine, PAGE, UINT64_MAX - PAGE, &region));
    kvf_region_params params = {sizeof params, KVF_MEMORY_HOST, 0, -1, NULL, PAGE, 0};
    expect_status(KVF_ERR_EMPTY, shm_ops()->register_region(it->ours.instance, &params, &region));
    params.base = mine->base;
    params.length = UINT64_MAX;
    expect_status(KVF_ERR_RANGE, shm_ops()->register_region(it->ours.instance, &params, &region));
    params.length = PAGE;
    params.memory_kind = 77;
    expect_status(KVF_ERR_UNSUPPORTED, shm_ops()->register_region(it->ours.instance, &params, &region));
    expect_words("77");
    params.memory_kind = KVF_MEMORY_HOST;
    params.fd = 1000000;
    expect_status(KVF_ERR_SYSTEM, shm_ops()->register_region(it->ours.instance, &params, &region));
    params.struct_size = 8;
    expect_status(KVF_ERR_INVALID, shm_ops()->register_region(it->ours.instance, &params, &region));
    assert_null(region);
}

static void calls_out_of_order_are_refused(void **state) {
    pair *it = *state;
    kvf_peer *peer = NULL;
    kvf_remote *remote = NULL;
    expect_status(KVF_OK, link_create(&it->ours, &it->theirs.address, &peer));
    expect_status(KVF_ERR_STATE, shm_ops()->import_key(peer, it->theirs.key.bytes, it->theirs.key.size, &remote));
    expect_status(KVF_ERR_PROTOCOL, shm_ops()->peer_connect(peer, "what is this", 12));
    expect_status(KVF_OK, shm_ops()->peer_connect(peer, NULL, 0));
    expect_status(KVF_ERR_STATE, shm_ops()->peer_connect(peer, NULL, 0));
    assert_null(remote);
    shm_ops()->peer_destroy(peer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(buffer_that_is_too_small_is_told_the_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blobs_of_another_length_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(address_is_no_key_and_key_no_address, set_up, tear_down),
        cmocka_unit_test(every_flipped_bit_of_an_address_is_noticed),
        cmocka_unit_test_setup_teardown(peer_whose_cookie_was_never_found_is_not_fenced_while_its_process_lives, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(no_flipped_bit_of_a_key_makes_room_that_is_not_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(random_bytes_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(peer_of_another_host_is_unreachable_and_both_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(peer_of_another_pid_namespace_is_unreachable_and_both_are_named, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(key_of_another_instance_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(key_of_the_wrong_inode_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unsealed_memfd_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memfd_that_cannot_be_mapped_leaves_cross_memory_attach, set_up, tear_down),
        cmocka_unit_test_setup_teardown(descriptor_that_is_no_memfd_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fifo_that_nobody_writes_does_not_hold_up_the_import, set_up, tear_down),
        cmocka_unit_test_setup_teardown(key_that_leaves_the_memfd_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(regions_that_hold_nothing_or_leave_their_memfd_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(calls_out_of_order_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
