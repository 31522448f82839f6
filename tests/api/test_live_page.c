/* SPDX-License-Identifier: Apache-2.0 */
/* The live page as documented in tryst/live.h. The page is found by name, and other
 * processes can read but not write it. An operation is on the page from its submission to
 * its completion; operations beyond the number of places are counted; the page disappears
 * with its group. tests/tools/live checks what tryst-info prints of it. */
#include "support/patience.h"
#include "support/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tryst/live.h>
#include <tryst/tryst.h>

#define PREFIX "/memfd:" TRYST_LIVE_NAME

/* Return a descriptor of this process that is a live page, and the number of such
 * descriptors. */
static int page_find(int *count_p)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    int found = -1;
    *count_p = 0;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        char path[300], link[256] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, link, sizeof link - 1) < 0 ||
            strncmp(link, PREFIX, sizeof PREFIX - 1) != 0)
            continue;
        found = atoi(entry->d_name);
        ++*count_p;
    }
    closedir(dir);
    return found;
}

struct rank {
    tryst_ctx *ctx;
    tryst_group *group;
    tryst_step *step;
    const struct tryst_live_header *header;
    size_t bytes;
};

static void rank_open(struct rank *rank)
{
    char path[64];
    int count;
    assert_int_equal(tryst_open(NULL, &rank->ctx), TRYST_OK);
    assert_int_equal(tryst_group_open(rank->ctx, NULL, &rank->group), TRYST_OK);
    int fd = page_find(&count);
    assert_int_equal(count, 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    /* a new descriptor, as another process would open it */
    int own = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(own >= 0);
    off_t bytes = lseek(own, 0, SEEK_END);
    assert_true(bytes > (off_t)sizeof *rank->header);
    rank->bytes = (size_t)bytes;
    rank->header = mmap(NULL, rank->bytes, PROT_READ, MAP_SHARED, own, 0);
    assert_true(rank->header != MAP_FAILED);
    close(own);
    assert_int_equal(tryst_step_open(rank->group, 7, &rank->step), TRYST_OK);
}

static void rank_close(struct rank *rank)
{
    int count;
    tryst_step_close(rank->step, NULL);
    tryst_group_close(rank->group);
    page_find(&count);
    assert_int_equal(count, 0);
    tryst_close(rank->ctx);
    munmap((void *)rank->header, rank->bytes);
}

static const struct tryst_live_op *op_at(const struct rank *rank, uint32_t place)
{
    return (const void *)((const char *)rank->header + rank->header->ops_offset +
                          place * rank->header->op_bytes);
}

/* Return the operation of `edge` on the page, or NULL; `*count_p`: the number of
 * operations on the page. */
static const struct tryst_live_op *op_find(const struct rank *rank, const char *edge,
                                           int *count_p)
{
    const struct tryst_live_op *found = NULL;
    *count_p = 0;
    for (uint32_t i = 0; i < rank->header->ops_count; i++) {
        const struct tryst_live_op *op = op_at(rank, i);
        char key[TRYST_LIVE_KEY_MAX + 1];
        if (!op->kind && !op->state)
            continue;
        assert_true(op->begun == op->ended);
        snprintf(key, sizeof key, "%.*s", (int)op->key_bytes, op->key);
        found = strstr(key, edge) ? op : found;
        ++*count_p;
    }
    return found;
}

static tryst_op *submit(const struct rank *rank, bool send, const char *edge, void *data)
{
    char key[TRYST_KEY_MAX + 1];
    tryst_op *op;
    tryst_tensor tensor = {
        .struct_size = sizeof tensor, .data = data, .count = 8, .dtype = TRYST_DTYPE_U8};
    assert_int_equal(tryst_key_build(rank->group, 0, 0, edge, 0, 0, key, sizeof key), 0);
    assert_int_equal(send ? tryst_send(rank->step, key, &tensor, NULL, &op)
                          : tryst_recv(rank->step, key, &tensor, NULL, &op),
                     TRYST_OK);
    return op;
}

static void test_header(void **state)
{
    struct rank rank;
    int count;
    rank_open(&rank);
    const struct tryst_live_header *header = rank.header;
    assert_true(header->magic == TRYST_LIVE_MAGIC);
    assert_int_equal(header->layout, TRYST_LIVE_LAYOUT);
    assert_string_equal(header->version, tryst_version_string());
    assert_int_equal(header->page_bytes, rank.bytes);
    assert_int_equal(header->pid, getpid());
    assert_int_equal(header->rank, 0);
    assert_int_equal(header->size, 1);
    assert_int_equal(header->phase, TRYST_LIVE_OPEN);
    assert_true(header->session != 0);
    assert_int_equal(header->steps_end, 8);
    assert_int_equal(header->steps_open, 1);
    /* no process can map the page for writing, not even by the library's own
     * descriptor */
    errno = 0;
    assert_true(mmap(NULL, rank.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                     page_find(&count), 0) == MAP_FAILED);
    assert_int_equal(errno, EPERM);
    rank_close(&rank);
}

/* The page has the operation after the submission, without a call that makes progress. */
static void test_operation(void **state)
{
    struct rank rank;
    uint64_t in = 0, out = 5;
    int count;
    rank_open(&rank);
    assert_null(op_find(&rank, "act", &count));
    assert_int_equal(count, 0);
    tryst_op *recv = submit(&rank, false, "act", &in);
    const struct tryst_live_op *op = op_find(&rank, "act", &count);
    assert_non_null(op);
    assert_int_equal(count, 1);
    assert_int_equal(op->kind, TRYST_LIVE_RECV);
    assert_int_equal(op->peer, 0);
    assert_int_equal(op->step, 7);
    assert_int_equal(op->number, 0);
    assert_int_equal(op->bytes, 8);
    assert_true(op->since_ns > 0 && op->since_ns <= tryst_now_ns(rank.ctx));
    /* the wait sleeps on the operation */
    assert_int_equal(tryst_wait(recv, 20000000), TRYST_E_TIMEOUT);
    tryst_op *send = submit(&rank, true, "act", &out);
    assert_int_equal(tryst_wait(recv, TRYST_FOREVER), TRYST_OK);
    assert_int_equal(tryst_wait(send, TRYST_FOREVER), TRYST_OK);
    assert_null(op_find(&rank, "act", &count));
    assert_int_equal(count, 0);
    tryst_op_release(recv);
    tryst_op_release(send);
    rank_close(&rank);
}

/* Each place is used again with another key, and the page shows the current key each
 * time. */
static void test_keys(void **state)
{
    struct rank rank;
    uint64_t data[6] = {0};
    int count;
    rank_open(&rank);
    for (int round = 0; round < 20; round++) {
        tryst_op *ops[6];
        char edge[3][200];
        for (int i = 0; i < 3; i++) {
            snprintf(edge[i], sizeof edge[i], "e%d.%d%0*d", round, i, 1 + 40 * i, 0);
            ops[i] = submit(&rank, false, edge[i], &data[i]);
        }
        for (int i = 0; i < 3; i++)
            assert_non_null(op_find(&rank, edge[i], &count));
        assert_int_equal(count, 3);
        for (int i = 0; i < 3; i++)
            ops[3 + i] = submit(&rank, true, edge[(i + round) % 3], &data[3 + i]);
        assert_int_equal(tryst_wait_all(ops, 6, TRYST_FOREVER), TRYST_OK);
        for (int i = 0; i < 6; i++)
            tryst_op_release(ops[i]);
    }
    rank_close(&rank);
}

/* Submit more operations than there are places: all are counted, the oldest have places,
 * and an operation that a thread waits for always has a place. */
static void test_many(void **state)
{
    enum { MANY = 1000 };
    static uint64_t in[MANY];
    static tryst_op *ops[MANY];
    struct rank rank;
    char edge[32];
    int count;
    rank_open(&rank);
    for (int i = 0; i < MANY; i++) {
        snprintf(edge, sizeof edge, "edge<%d>", i);
        ops[i] = submit(&rank, false, edge, &in[i]);
    }
    assert_non_null(op_find(&rank, "edge<0>", &count));
    assert_int_equal(count, rank.header->ops_count);
    assert_null(op_find(&rank, "edge<999>", &count));
    struct patience patience = patience_begin();
    do
        assert_int_equal(tryst_wait(ops[999], 20000000), TRYST_E_TIMEOUT);
    while (!op_find(&rank, "edge<999>", &count) &&
           patience_spent_ns(&patience) < UINT64_C(10000000000));
    assert_non_null(op_find(&rank, "edge<999>", &count));
    assert_int_equal(count, rank.header->ops_count);
    assert_int_equal(rank.header->pending, MANY);
    tryst_step_close(rank.step, NULL);
    for (int i = 0; i < MANY; i++) {
        assert_true(tryst_wait(ops[i], TRYST_FOREVER) >= 100);
        tryst_op_release(ops[i]);
    }
    op_find(&rank, "edge", &count);
    assert_int_equal(count, 0);
    assert_int_equal(tryst_step_open(rank.group, 8, &rank.step), TRYST_OK);
    rank_close(&rank);
}

int main(void)
{
    setenv("TRYST_LOG_LEVEL", "warn", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_operation),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
