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
    shm_link link; /* connected, without the key */
} pair;

static int set_up(void **state) {
    pair *it = calloc(1, sizeof *it);
    assert_non_null(it);
    side_open(&it->ours, MEMORY_SEALED, BYTES, "");
    side_open(&it->theirs, MEMORY_SEALED, BYTES, "");
    link_meet(&it->link, &it->ours, &it->theirs);
    *state = it;
    return 0;
}

static int tear_down(void **state) {
    pair *it = *state;
    link_close(&it->link);
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
    const int status = shm_ops()->import_key(it->link.peer, key->bytes, key->size, &remote);
    if (status == KVF_OK)
        shm_ops()->release_key(it->link.peer, remote);
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
    expect_status(KVF_ERR_PROTOCOL, shm_ops()->import_key(it->link.peer, NULL, 0, &remote));
}

static void blobs_of_another_kind_are_refused(void **state) {
    pair *it = *state;
    expect_status(KVF_ERR_PROTOCOL, try_address(it, &it->theirs.key));
    expect_words("begins with");
    kvf_peer *peer = NULL;
    expect_status(KVF_OK, link_create(&it->ours, &it->theirs.address, &peer));
    expect_status(KVF_ERR_PROTOCOL, link_greet(peer, &it->theirs.key));
    expect_words("begins with");
    shm_ops()->peer_destroy(peer);
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
    const char *ways[] = {"", "cma=off", "cma=only"};
    const child_setup setup = {MEMORY_SEALED, BYTES, "", NULL};
    child other;
    assert_true(child_start(&other, &setup));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; ++i) {
        side ours;
        side_open(&ours, MEMORY_SEALED, BYTES, ways[i]);
        assert_int_equal(unnoticed_bits(&ours, &other.address), 0);
        side_close(&ours);
    }
    child_stop(&other);
}

static void every_flipped_bit_of_a_greeting_is_noticed(void **state) {
    pair *it = *state;
    for (size_t bit = 0; bit < link_greeting(it->link.peer).size * 8; ++bit) {
        kvf_peer *ours = NULL, *theirs = NULL;
        shm_link link = {NULL, NULL, NULL};
        expect_status(KVF_OK, link_create(&it->ours, &it->theirs.address, &ours));
        expect_status(KVF_OK, link_create(&it->theirs, &it->ours.address, &theirs));
        link.peer = ours;
        link.back = theirs;
        const blob to_them = link_greeting(ours);
        blob to_us = link_greeting(theirs);
        to_us.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        expect_status(KVF_OK, link_greet(theirs, &to_them));
        /* Either we find that it is none, or do not find our challenge where it says, or they do not find theirs. */
        if (link_greet(ours, &to_us) == KVF_OK && link_import(&link, &it->theirs.key) == KVF_OK) {
            shm_link back = {theirs, NULL, NULL};
            expect_status(KVF_ERR_UNREACHABLE, link_import(&back, &it->ours.key));
        }
        link_close(&link);
    }
}

static void peer_whose_cookie_was_never_found_is_not_fenced_while_its_process_lives(void **state) {
    pair *it = *state;
    blob address = it->theirs.address;
    /* The nonce of theirs, which its key has behind the head. */
    const unsigned char other[16] = "another nonce 16";
    patch(&address, it->theirs.key.bytes + 8, other, 16);
    kvf_peer *peer = NULL;
    expect_status(KVF_ERR_UNREACHABLE, link_connect(&it->ours, &address, &peer));
    expect_status(KVF_ERR_BUSY, shm_ops()->fence(peer));
    shm_ops()->peer_destroy(peer);
}

static void every_flipped_bit_of_a_key_is_noticed(void **state) {
    pair *it = *state;
    for (size_t bit = 0; bit < it->theirs.key.size * 8; ++bit) {
        blob key = it->theirs.key;
        key.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        expect_status(KVF_ERR_PROTOCOL, try_key(it, &key));
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

/* Imports the key of a region whose descriptor has become another file's since it was registered. */
static int try_descriptor(const pair *it, int fd) {
    memory mine = memory_new(MEMORY_SEALED, PAGE);
    kvf_region *region = NULL;
    expect_status(KVF_OK, side_register(&it->theirs, &mine, 0, PAGE, &region));
    const blob key = side_export(&it->theirs, region);
    if (fd >= 0)
        assert_int_equal(dup2(fd, mine.fd), mine.fd);
    else
        close(mine.fd);
    const int status = try_key(it, &key);
    shm_ops()->deregister_region(it->theirs.instance, region);
    if (fd < 0)
        mine.fd = -1;
    memory_free(&mine);
    return status;
}

static void descriptor_of_another_file_is_refused(void **state) {
    pair *it = *state;
    expect_status(KVF_ERR_PROTOCOL, try_descriptor(it, it->ours.memory.fd));
    expect_words("inode");
    expect_status(KVF_ERR_PROTOCOL, try_descriptor(it, -1));
    expect_words("has no descriptor");
}

static void unsealed_memfd_is_refused(void **state) {
    pair *it = *state;
    memory loose = memory_new(MEMORY_LOOSE, BYTES);
    kvf_region *region = NULL;
    expect_status(KVF_ERR_UNSUPPORTED, side_register(&it->ours, &loose, 0, BYTES, &region));
    expect_words("F_SEAL_SHRINK");
    assert_null(region);
    /* With another seal it is no better. */
    assert_int_equal(fcntl(loose.fd, F_ADD_SEALS, F_SEAL_GROW), 0);
    expect_status(KVF_ERR_UNSUPPORTED, side_register(&it->ours, &loose, 0, BYTES, &region));
    assert_null(region);
    memory_free(&loose);
}

static void memfd_that_cannot_be_mapped_leaves_cross_memory_attach(void **state) {
    pair *it = *state;
    assert_int_equal(fcntl(it->theirs.memory.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
    expect_status(KVF_OK, link_import(&it->link, &it->theirs.key));
    assert_int_equal(side_counter(&it->ours, "open_mapped_bytes"), 0);
    const kvf_segment segment = segment_of(&it->ours, &it->link, 0, 0, BYTES);
    transfer_all(&it->ours, &it->link, KVF_OP_WRITE, &segment, 1);
    assert_int_equal(side_counter(&it->ours, "cma_bytes"), BYTES);
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
    expect_status(KVF_ERR_PROTOCOL, try_descriptor(it, file));
    const memory plain = {it->ours.memory.base, BYTES, file};
    kvf_region *region = NULL;
    expect_status(KVF_ERR_UNSUPPORTED, side_register(&it->ours, &plain, 0, BYTES, &region));
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
    expect_status(KVF_ERR_PROTOCOL, shm_ops()->peer_connect(peer, NULL, 0));
    const blob greeting = link_greeting(peer);
    expect_status(KVF_OK, link_greet(peer, &greeting));
    expect_status(KVF_ERR_STATE, link_greet(peer, &greeting));
    assert_null(remote);
    shm_ops()->peer_destroy(peer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(buffer_that_is_too_small_is_told_the_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blobs_of_another_length_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blobs_of_another_kind_are_refused, set_up, tear_down),
        cmocka_unit_test(every_flipped_bit_of_an_address_is_noticed),
        cmocka_unit_test_setup_teardown(every_flipped_bit_of_a_greeting_is_noticed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(peer_whose_cookie_was_never_found_is_not_fenced_while_its_process_lives, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(every_flipped_bit_of_a_key_is_noticed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(random_bytes_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(peer_of_another_host_is_unreachable_and_both_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(peer_of_another_pid_namespace_is_unreachable_and_both_are_named, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(key_of_another_instance_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(descriptor_of_another_file_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unsealed_memfd_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memfd_that_cannot_be_mapped_leaves_cross_memory_attach, set_up, tear_down),
        cmocka_unit_test_setup_teardown(descriptor_that_is_no_memfd_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(fifo_that_nobody_writes_does_not_hold_up_the_import, set_up, tear_down),
        cmocka_unit_test_setup_teardown(regions_that_hold_nothing_or_leave_their_memfd_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(calls_out_of_order_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
