/* SPDX-License-Identifier: Apache-2.0 */
/* The texts for a peer that is given up, as users read them: each behind "rank 3 ",
 * printed and checked for its form. The test reads those of the table from the table; the
 * others, which have their own reasons, from the sources (TEST_SOURCES). */
#include "world.h"

#include "rendezvous/peer/fault.h"

#include <ctype.h>

static struct world world;

/* The first word: a verb that can follow "rank 3". */
static const char *const verbs[] = {
    "aborted", "acknowledged", "announced", "answered", "broke", "cannot", "could",
    "did",     "died",         "exceeded",  "gave",     "has",   "is",     "offered",
    "refused", "reported",     "requested", "returned", "sent",  "was"};

static bool begins_with_verb(const char *text)
{
    size_t bytes = strcspn(text, " :");
    for (size_t i = 0; i < COUNT_OF(verbs); i++)
        if (strlen(verbs[i]) == bytes && strncmp(text, verbs[i], bytes) == 0)
            return true;
    return false;
}

static void text_check(const char *text)
{
    static const char *const banned[] = {" it ",  " nobody", " somebody",
                                         " who ", "  ",      " :"};
    print_message("rank 3 %s\n", text);
    if (!begins_with_verb(text))
        fail_msg("no verb behind \"rank 3\": %s", text);
    for (size_t i = 0; i < COUNT_OF(banned); i++)
        if (strstr(text, banned[i]))
            fail_msg("\"%s\" in: %s", banned[i], text);
    size_t bytes = strlen(text);
    assert_true(bytes > 0 && !strchr(" .;:", text[bytes - 1]));
}

/* Check the texts as operations and the log show them. The advice must not be cut off,
 * however long the rank and the details. */
static void test_table(void **state)
{
    static const char details[] = "tag ffffffffffff, 18446744073709551615 bytes";
    for (int i = 0; i < PEER_FAULTS_COUNT; i++) {
        bool detailed =
            i == PEER_FAULT_BULK || i == PEER_FAULT_RECORD || i == PEER_FAULT_TRANSPORT;
        world_open(&world, 4, NULL);
        struct peer *peer = world_peer(&world, 0, 3);
        peer_fault(peer, (enum peer_fault)i, detailed ? details : NULL);
        const char *text = peer->liveness.gone_text;
        assert_int_equal(peer->liveness.gone_status, TRYST_E_PROTOCOL);
        assert_memory_equal(text, "rank 3 ", strlen("rank 3 "));
        text_check(text + strlen("rank 3 "));
        assert_non_null(strstr(text, "; run the same build on all ranks"));
        if (strlen(text) + strlen("048575") >= sizeof peer->liveness.gone_text)
            fail_msg("too long: %s", text);
        assert_non_null(strstr(world.sides[0].log_text, text));
        world_settle(&world);
        world_close(&world);
    }
}

/* ---- texts in the sources ---------------------------------------------------------- */

static char *file_read(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = calloc(1, 1 << 17);
    if (!file)
        fail_msg("%s cannot be read", path);
    assert_true(fread(text, 1, (1 << 17) - 1, file) > 0);
    fclose(file);
    return text;
}

/* Copy the literal that begins at `at` (a quote), with those that follow it; return the
 * end. */
static const char *literal_read(const char *at, char *out)
{
    while (*at == '"') {
        for (at++; *at && *at != '"'; at++)
            *out++ = *at;
        at++;
        while (isspace((unsigned char)*at))
            at++;
    }
    *out = '\0';
    return at;
}

/* Check every text in a call of peer_give_up, or made for one, except formats that begin
 * with another text. */
static int texts_check(const char *source, const char *call)
{
    int count = 0;
    for (const char *at = source; (at = strstr(at, call)) != NULL;) {
        /* may lie in a text, which is then read to its end */
        const char *end = strchr(at, ';');
        assert_non_null(end);
        for (const char *quote = at;
             (quote = strchr(quote, '"')) != NULL && quote < end;) {
            char text[512];
            quote = literal_read(quote, text);
            char *format = strstr(text, ": %");
            if (format)
                *format = '\0'; /* cut the reason that follows */
            if (strlen(text) > 2 && text[strlen(text) - 2] == ':')
                text[strlen(text) - 2] = '\0';
            if (text[0] && text[0] != '%') {
                text_check(text);
                count++;
            }
        }
        at = end;
    }
    return count;
}

static void test_sources(void **state)
{
    static const char *const files[] = {"peer/endpoint.c", "peer/link.c",
                                        "peer/liveness.c", "peer/accept.c",
                                        "membership.c"};
    static const char *const folders[] = {"protocol/channel.c",  "protocol/consumer.c",
                                          "protocol/eager.c",    "protocol/frames.c",
                                          "protocol/producer.c", "protocol/protocol.c",
                                          "protocol/send_run.c", "peer/abort.c"};
    int count = 0;
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/%s", TEST_SOURCES, files[i]);
        char *source = file_read(path);
        count += texts_check(source, "peer_give_up(");
        count += texts_check(source, "peer_ep_lost(");
        count += texts_check(source, "snprintf(reason, sizeof reason");
        count += texts_check(source, "snprintf(text, sizeof text");
        count += texts_check(source, "char reason[TRANSPORT_TEXT_MAX] =");
        count += texts_check(source, "const char *what =");
        free(source);
    }
    assert_in_range(count, 16, 100);
    /* These files must use the table's texts. */
    for (size_t i = 0; i < COUNT_OF(folders); i++) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/%s", TEST_SOURCES, folders[i]);
        char *source = file_read(path);
        assert_null(strstr(source, "peer_give_up("));
        free(source);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_sources),
    };
    return cmocka_run_group_tests_name("texts", tests, NULL, NULL);
}
