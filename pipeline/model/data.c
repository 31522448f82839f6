/* SPDX-License-Identifier: Apache-2.0 */
/* Reads windows of a data file, at offsets that every rank computes alone.
 *
 * One idea: the offset of a window is a pure function of (seed, step, micro-batch, row),
 * so the first and the last stage read the same windows without a message. The file is
 * read with pread, not mapped: a file that shrinks during the training is an error, not a
 * SIGBUS. */
#include <tryst/data.h>

#include "pipeline/base/file.h"
#include "pipeline/base/random.h"
#include "pipeline/base/refuse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tryst/tryst.h>
#include <unistd.h>

struct tryst_data {
    int fd;
    int32_t seq;
    uint64_t seed;
    uint64_t bytes;
};

/* Open the file, and refuse it unless it is a regular file of at least one window. Does
 * not block if `path` is another kind of file, such as a FIFO without a writer. */
static tryst_status data_open_file(const char *path, int32_t seq, int *fd_p,
                                   uint64_t *bytes_p)
{
    struct stat stat;
    int fd = file_move(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (fd < 0) {
        return refuse(TRYST_E_IO, "cannot open the data file \"%s\": %s", path,
                      strerror(errno));
    }
    tryst_status status = TRYST_OK;
    if (fstat(fd, &stat) != 0) {
        status = refuse(TRYST_E_IO, "cannot examine the data file \"%s\": %s", path,
                        strerror(errno));
    } else if (!S_ISREG(stat.st_mode)) {
        status = refuse(
            TRYST_E_IO,
            "cannot use the data file \"%s\": it is %s; training data must be a regular "
            "file",
            path, S_ISDIR(stat.st_mode) ? "a directory" : "not a file of bytes");
    } else if ((uint64_t)stat.st_size < (uint64_t)seq + 1) {
        status = refuse(
            TRYST_E_IO,
            "cannot use the data file \"%s\": it has %lld bytes, but a window needs %lld "
            "(seq %d and the byte behind it); use a longer file or a smaller seq",
            path, (long long)stat.st_size, (long long)seq + 1, (int)seq);
    }
    if (status != TRYST_OK) {
        close(fd);
        return status;
    }
    *fd_p = fd;
    *bytes_p = (uint64_t)stat.st_size;
    return TRYST_OK;
}

tryst_status tryst_data_open(const char *path, int32_t seq, uint64_t seed,
                             tryst_data **data_p)
{
    if (seq < 1) {
        return refuse(TRYST_E_INVALID,
                      "cannot use the data file: a window of %d bytes is "
                      "empty; seq must be at least 1",
                      (int)seq);
    }
    tryst_data *data = calloc(1, sizeof(*data));
    if (!data) {
        return refuse(TRYST_E_NOMEM, "cannot use the data file: out of memory");
    }
    tryst_status status = data_open_file(path, seq, &data->fd, &data->bytes);
    if (status != TRYST_OK) {
        free(data);
        return status;
    }
    data->seq = seq;
    data->seed = seed;
    *data_p = data;
    return TRYST_OK;
}

uint64_t tryst_data_offset(const tryst_data *data, uint64_t step, uint64_t microbatch,
                           int32_t row)
{
    if (!data) {
        return 0;
    }
    /* The complement, so that windows and initial weights of one seed are independent. */
    uint64_t stream = random_stream(~data->seed, step, microbatch);
    return random_below(random_at(stream, (uint64_t)row),
                        data->bytes - (uint64_t)data->seq);
}

static tryst_status data_read(const tryst_data *data, uint64_t offset, uint8_t *bytes)
{
    size_t done = 0, wanted = (size_t)data->seq;
    while (done < wanted) {
        ssize_t got =
            pread(data->fd, bytes + done, wanted - done, (off_t)(offset + done));
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return refuse(TRYST_E_IO, "cannot read the data file at byte %llu: %s",
                          (unsigned long long)(offset + done),
                          got < 0 ? strerror(errno) : "it has become shorter");
        }
        done += got > 0 ? (size_t)got : 0;
    }
    return TRYST_OK;
}

tryst_status tryst_data_windows(const tryst_data *data, uint64_t step,
                                uint64_t microbatch, int32_t rows, uint8_t *input,
                                uint8_t *target)
{
    tryst_status status = TRYST_OK;
    for (int32_t row = 0; status == TRYST_OK && row < rows; row++) {
        uint64_t offset = tryst_data_offset(data, step, microbatch, row);
        size_t at = (size_t)row * (size_t)data->seq;
        if (input) {
            status = data_read(data, offset, input + at);
        }
        if (target && status == TRYST_OK) {
            status = data_read(data, offset + 1, target + at);
        }
    }
    return status;
}

uint64_t tryst_data_bytes(const tryst_data *data)
{
    return data ? data->bytes : 0;
}

void tryst_data_close(tryst_data *data)
{
    if (data) {
        close(data->fd);
        free(data);
    }
}
