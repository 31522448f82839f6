/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device names: TensorFlow's grammar (util/device_name_utils.cc), made strict.
 *
 * Idea: a name is consumed part by part, so a prefix is a name that ends where a part
 * does. Invariant: allocates nothing and reads no byte behind the given length.
 */
#include "device_name.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

static bool name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* Return the length of the run of name characters (or digits) at `text`. */
static size_t run_bytes(const char *text, size_t bytes, bool digits)
{
    size_t n = 0;
    while (n < bytes &&
           (digits ? isdigit((unsigned char)text[n]) != 0 : name_char(text[n])))
        n++;
    return n;
}

/* Return the bytes of "/job:NAME", "/replica:N" or "/task:N" at `text`; 0: no match. */
static size_t component_bytes(const char *text, size_t bytes, const char *head,
                              bool digits)
{
    size_t head_bytes = strlen(head);
    if (bytes <= head_bytes || memcmp(text, head, head_bytes) != 0)
        return 0;
    size_t value = run_bytes(text + head_bytes, bytes - head_bytes, digits);
    return value ? head_bytes + value : 0;
}

/* Return the bytes of "/device:TYPE:ID" at `text`; 0: no match. */
static size_t device_bytes(const char *text, size_t bytes)
{
    size_t type = component_bytes(text, bytes, "/device:", false);
    if (!type || type >= bytes || text[type] != ':')
        return 0;
    size_t id = run_bytes(text + type + 1, bytes - type - 1, true);
    return id ? type + 1 + id : 0;
}

/* Return the bytes of the legacy names "/cpu:0" and "/gpu:1" at `text`; 0: no match. */
static size_t legacy_bytes(const char *text, size_t bytes)
{
    size_t n = component_bytes(text, bytes, "/cpu:", true);
    return n ? n : component_bytes(text, bytes, "/gpu:", true);
}

/* Return NULL if the number that ends `component` fits TensorFlow's int, else the
 * reason; *at_p, the place of the component, then moves to the number. */
static const char *number_check(const char *component, size_t bytes, size_t *at_p)
{
    size_t first = bytes;
    uint64_t value = 0;
    while (isdigit((unsigned char)component[first - 1]))
        first--; /* a component begins with '/' */
    for (size_t i = first; i < bytes && value <= INT32_MAX; i++)
        value = value * 10 + (uint64_t)(component[i] - '0');
    if (value <= INT32_MAX)
        return NULL;
    *at_p += first;
    return "device: number above 2147483647";
}

const char *device_name_check(tryst_view device, bool partly, size_t *at_p)
{
    static const struct {
        const char *head;
        bool digits;
        const char *reason;
    } parts[] = {{"/job:", false, "device: expected \"/job:NAME\""},
                 {"/replica:", true, "device: expected \"/replica:N\""},
                 {"/task:", true, "device: expected \"/task:N\""},
                 {NULL, true, "device: expected \"/device:TYPE:ID\""}};
    *at_p = 0;
    if (!device.bytes)
        return "device: empty";
    if (legacy_bytes(device.data, device.bytes) == device.bytes)
        return number_check(device.data, device.bytes, at_p);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *part = device.data + *at_p;
        size_t left = device.bytes - *at_p;
        if (partly && *at_p && !left)
            return NULL;
        size_t n = parts[i].head
                       ? component_bytes(part, left, parts[i].head, parts[i].digits)
                       : device_bytes(part, left);
        if (!n)
            return parts[i].reason;
        const char *reason = parts[i].digits ? number_check(part, n, at_p) : NULL;
        if (reason)
            return reason;
        *at_p += n;
    }
    return *at_p == device.bytes ? NULL : "device: trailing characters";
}

bool device_name_covers(tryst_view prefix, tryst_view device)
{
    return device.bytes >= prefix.bytes &&
           memcmp(prefix.data, device.data, prefix.bytes) == 0 &&
           (device.bytes == prefix.bytes || device.data[prefix.bytes] == '/');
}

int device_name_compare(tryst_view a, tryst_view b)
{
    size_t bytes = a.bytes < b.bytes ? a.bytes : b.bytes;
    for (size_t i = 0; i < bytes; i++) {
        if (a.data[i] == b.data[i])
            continue;
        if (a.data[i] == '/' || b.data[i] == '/')
            return a.data[i] == '/' ? -1 : 1;
        return (unsigned char)a.data[i] < (unsigned char)b.data[i] ? -1 : 1;
    }
    return (a.bytes > b.bytes) - (a.bytes < b.bytes);
}
