/* Who is taken for whom, and which memory a key reaches: what somebody who has heard the blobs of others makes of them.
 */
#define _GNU_SOURCE
#include "shm_child.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES = 16 * PAGE };

typedef struct scene {
    side ours, theirs, third; /* we are to be made to write where theirs is */
    shm_link link;            /* ours with theirs, when the test wants it */
} scene;

static int set_up(void **state) {
    scene *it = calloc(1, sizeof *it);
    assert_non_null(it);
    side_open(&it->ours, MEMORY_SEALED, BYTES, "");
    side_open(&it->theirs, MEMORY_PLAIN, BYTES, "");
    side_open(&it->third, MEMORY_PLAIN, BYTES, "");
    *state = it;
    return 0;
}

static int tear_down(void **state) {
    scene *it = *state;
    if (it->link.peer != NULL)
        link_close(&it->link);
    side_close(&it->third);
    side_close(&it->theirs);
    side_close(&it->ours);
    free(it);
    return 0;
}

/* A number in the blob becomes another. */
static void patch(blob *it, const void *old, const void *new, size_t size) {
    unsigned char *place = memmem(it->bytes, it->size, old, size);
    assert_non_null(place);
    memcpy(place, new, size);
}

static void patch_u64(blob *it, size_t offset, uint64_t value) {
    memcpy(it->bytes + offset, &value, sizeof value);
}

/* Where a key has them. */
enum { KEY_SLOT = 24, KEY_SERIAL = 32 };

/* ------------------------------------------------------------------------------------------------ the address */

static void our_own_address_copied_back_is_refused(void **state) {
    scene *it = *state;
    kvf_peer *peer = NULL;
    blob address = it->ours.address;
    expect_status(KVF_ERR_PROTOCOL, link_create(&it->ours, &address, &peer));
    expect_words("our own");
    /* Under a name of its own, and with the blob changed to that name. */
    address.instance = it->theirs.id;
    expect_status(KVF_ERR_PROTOCOL, link_create(&it->ours, &address, &peer));
    patch(&address, &it->ours.id, &it->theirs.id, sizeof it->ours.id);
    expect_status(KVF_ERR_PROTOCOL, link_create(&it->ours, &address, &peer));
    expect_words("our own");
    assert_null(peer);
}

static void address_of_an_engine_under_another_name_is_refused(void **state) {
    scene *it = *state;
    kvf_peer *peer = NULL;
    blob address = it->theirs.address;
    address.instance = it->third.id;
    expect_status(KVF_ERR_PROTOCOL, link_create(&it->ours, &address, &peer));
    expect_words("is of instance");
    assert_null(peer);
    /* Also when the blob says the same: the cookie does not. */
    patch(&address, &it->theirs.id, &it->third.id, sizeof it->theirs.id);
    expect_status(KVF_ERR_UNREACHABLE, link_connect(&it->ours, &address, &peer));
    expect_words("cookie is of instance");
    shm_ops()->peer_destroy(peer);
}

/* ----------------------------------------------------------------------------------------------- the greeting */

static void engine_that_does_not_know_the_connection_is_not_reached(void **state) {
    scene *it = *state;
    /* Its name, address and key are all right; it only is not the one who sent them. */
    expect_status(KVF_OK, link_connect(&it->ours, &it->theirs.address, &it->link.peer));
    expect_status(KVF_ERR_UNREACHABLE, link_import(&it->link, &it->theirs.key));
    expect_words("is not its own");
    assert_null(it->link.remote);
    assert_int_equal(side_counter(&it->ours, "open_mapped_bytes"), 0);
}

static void answer_to_somebody_elses_challenge_is_none_to_ours(void **state) {
    scene *it = *state;
    shm_link other;
    /* Theirs has answered third, and its answers are taken for ours one after the other. */
    link_meet(&other, &it->third, &it->theirs);
    blob greeting = link_greeting(other.back);
    for (uint64_t slot = 0; slot < 4; ++slot) {
        expect_status(KVF_OK, link_create(&it->ours, &it->theirs.address, &it->link.peer));
        patch_u64(&greeting, 24, slot);
        expect_status(KVF_OK, link_greet(it->link.peer, &greeting));
        expect_status(KVF_ERR_UNREACHABLE, link_import(&it->link, &it->theirs.key));
        link_close(&it->link);
    }
    it->link.peer = NULL;
    link_close(&other);
}

static void challenge_that_reached_the_engine_by_way_of_another_is_no_answer_to_us(void **state) {
    scene *it = *state;
    kvf_peer *third = NULL;
    /* Theirs is told our challenge by somebody whom it takes for third. */
    expect_status(KVF_OK, link_create(&it->ours, &it->theirs.address, &it->link.peer));
    expect_status(KVF_OK, link_create(&it->theirs, &it->third.address, &third));
    const blob ours = link_greeting(it->link.peer), theirs = link_greeting(third);
    expect_status(KVF_OK, link_greet(third, &ours));
    expect_status(KVF_OK, link_greet(it->link.peer, &theirs));
    expect_status(KVF_ERR_UNREACHABLE, link_import(&it->link, &it->theirs.key));
    shm_ops()->peer_destroy(third);
}

static void answer_ends_with_the_peer_that_gave_it(void **state) {
    scene *it = *state;
    link_meet(&it->link, &it->ours, &it->theirs);
    link_part(&it->link);
    expect_status(KVF_ERR_UNREACHABLE, link_import(&it->link, &it->theirs.key));
}

static void place_of_an_answer_outside_the_cookie_is_refused(void **state) {
    scene *it = *state;
    const uint64_t slots[] = {65535, 65536, UINT64_C(1) << 40, UINT64_C(1) << 59, UINT64_MAX};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; ++i) {
        expect_status(KVF_OK, link_create(&it->ours, &it->theirs.address, &it->link.peer));
        blob greeting = link_greeting(it->link.peer);
        patch_u64(&greeting, 24, slots[i]);
        expect_status(KVF_OK, link_greet(it->link.peer, &greeting));
        expect_status(KVF_ERR_UNREACHABLE, link_import(&it->link, &it->theirs.key));
        link_close(&it->link);
    }
    it->link.peer = NULL;
}

/* ---------------------------------------------------------------------------------------------------- the keys */

static void expect_no_region(scene *it, const blob *key) {
    expect_status(KVF_ERR_PROTOCOL, link_import(&it->link, key));
    expect_words("has not registered");
    assert_null(it->link.remote);
}

static void key_that_names_what_is_not_registered_is_refused(void **state) {
    scene *it = *state;
    link_meet(&it->link, &it->ours, &it->theirs);
    const uint64_t slots[] = {1, 2, 65535, 65536, UINT64_MAX, UINT64_MAX / 64 + 1, (uintptr_t)it->theirs.memory.base};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; ++i) {
        for (uint64_t serial = 0; serial < 3; ++serial) {
            blob key = it->theirs.key;
            patch_u64(&key, KEY_SLOT, slots[i]);
            patch_u64(&key, KEY_SERIAL, serial);
            expect_no_region(it, &key);
        }
    }
    const uint64_t serials[] = {0, 2, UINT64_MAX};
    for (size_t i = 0; i < sizeof serials / sizeof *serials; ++i) {
        blob key = it->theirs.key;
        patch_u64(&key, KEY_SERIAL, serials[i]);
        expect_no_region(it, &key);
    }
    expect_status(KVF_OK, link_import(&it->link, &it->theirs.key));
}

static void key_of_a_deregistered_region_is_refused(void **state) {
    scene *it = *state;
    link_meet(&it->link, &it->ours, &it->theirs);
    kvf_region *region = NULL;
    expect_status(KVF_OK, side_register(&it->theirs, &it->theirs.memory, 0, PAGE, &region));
    const blob old = side_export(&it->theirs, region);
    shm_ops()->deregister_region(it->theirs.instance, region);
    expect_no_region(it, &old);
    /* Also when the same memory is registered anew, in the same place: that has another key. */
    expect_status(KVF_OK, side_register(&it->theirs, &it->theirs.memory, 0, PAGE, &region));
    const blob new = side_export(&it->theirs, region);
    assert_memory_equal(old.bytes, new.bytes, KEY_SERIAL);
    expect_no_region(it, &old);
    expect_status(KVF_OK, link_import(&it->link, &new));
    shm_ops()->deregister_region(it->theirs.instance, region);
}

static void region_reaches_as_far_as_it_was_registered(void **state) {
    scene *it = *state;
    link_meet(&it->link, &it->ours, &it->theirs);
    kvf_region *region = NULL;
    expect_status(KVF_OK, side_register(&it->theirs, &it->theirs.memory, PAGE, 100, &region));
    const blob key = side_export(&it->theirs, region);
    expect_status(KVF_OK, link_import(&it->link, &key));
    const kvf_segment inside = segment_of(&it->ours, &it->link, 0, 0, 100),
                      beyond = segment_of(&it->ours, &it->link, 0, 1, 100);
    memory_fill(it->ours.memory.base, 100, 4);
    transfer_all(&it->ours, &it->link, KVF_OP_WRITE, &inside, 1);
    assert_memory_equal(it->theirs.memory.base + PAGE, it->ours.memory.base, 100);
    assert_int_equal(transfer(&it->ours, &it->link, KVF_OP_WRITE, &beyond, 1).refused, KVF_ERR_RANGE);
    shm_ops()->deregister_region(it->theirs.instance, region);
}

/* -------------------------------------------------------------------------------------------------- the cookie */

/* A descriptor of the child's cookie, of which it has one. */
static int cookie_of(const child *it, int *number) {
    char path[320], target[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)it->pid);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    int out = -1;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        snprintf(path, sizeof path, "/proc/%d/fd/%s", (int)it->pid, entry->d_name);
        const ssize_t length = readlink(path, target, sizeof target - 1);
        target[length < 0 ? 0 : length] = '\0';
        if (strstr(target, "kvferry-shm-cookie") == NULL)
            continue;
        out = open(path, O_RDWR | O_CLOEXEC);
        *number = atoi(entry->d_name);
    }
    closedir(folder);
    assert_true(out >= 0);
    return out;
}

/* The child lives before this process has cookies of its own for it to inherit. */
static void cookie_is_read_by_others_and_not_written(void **state) {
    (void)state;
    const child_setup setup = {MEMORY_PLAIN, BYTES, "", NULL};
    child theirs;
    assert_true(child_start(&theirs, &setup));
    int number = -1;
    const int fd = cookie_of(&theirs, &number);
    void *page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    assert_int_equal(mprotect(page, PAGE, PROT_READ | PROT_WRITE), -1);
    assert_ptr_equal(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    assert_int_equal(ftruncate(fd, 0), -1);
    munmap(page, PAGE);
    close(fd);
    child_stop(&theirs);
}

/* As it could be made of bytes that a peer wrote into a pool of the process's. */
static void cookie_that_others_may_write_is_none(void **state) {
    (void)state;
    const child_setup setup = {MEMORY_PLAIN, BYTES, "", NULL};
    child theirs;
    side ours;
    assert_true(child_start(&theirs, &setup));
    int number = -1;
    const int real = cookie_of(&theirs, &number);
    struct stat old, new;
    assert_int_equal(fstat(real, &old), 0);
    memory forged = memory_new(MEMORY_SEALED, (size_t)old.st_size);
    assert_int_equal(pread(real, forged.base, forged.size, 0), old.st_size);
    assert_int_equal(fstat(forged.fd, &new), 0);

    side_open(&ours, MEMORY_PLAIN, BYTES, "");
    blob address = theirs.address;
    const uint64_t old_file[2] = {old.st_dev, old.st_ino}, new_file[2] = {new.st_dev, new.st_ino};
    patch(&address, old_file, new_file, sizeof old_file);
    const int32_t old_place[2] = {theirs.pid, number}, new_place[2] = {getpid(), forged.fd};
    patch(&address, old_place, new_place, sizeof old_place);
    /* Its process is this one. The start time stands before the pid, and in our own address. */
    unsigned char *to = memmem(address.bytes, address.size, new_place, sizeof new_place);
    const int32_t pid = getpid();
    const unsigned char *from = memmem(ours.address.bytes, ours.address.size, &pid, sizeof pid);
    memcpy(to - 8, from - 8, 8);
    kvf_peer *peer = NULL;
    expect_status(KVF_ERR_UNREACHABLE, link_connect(&ours, &address, &peer));
    expect_words("no cookie of shm");
    shm_ops()->peer_destroy(peer);
    side_close(&ours);
    memory_free(&forged);
    close(real);
    child_stop(&theirs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cookie_is_read_by_others_and_not_written),
        cmocka_unit_test(cookie_that_others_may_write_is_none),
        cmocka_unit_test_setup_teardown(our_own_address_copied_back_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(address_of_an_engine_under_another_name_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(engine_that_does_not_know_the_connection_is_not_reached, set_up, tear_down),
        cmocka_unit_test_setup_teardown(answer_to_somebody_elses_challenge_is_none_to_ours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(challenge_that_reached_the_engine_by_way_of_another_is_no_answer_to_us, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(answer_ends_with_the_peer_that_gave_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(place_of_an_answer_outside_the_cookie_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(key_that_names_what_is_not_registered_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(key_of_a_deregistered_region_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(region_reaches_as_far_as_it_was_registered, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
