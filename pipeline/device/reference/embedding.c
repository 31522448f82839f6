/* SPDX-License-Identifier: Apache-2.0 */
/* The embedding: a row of each table for each byte, and the scatter-add back. */
#include "embedding.h"
#include "number.h"

void reference_embedding_forward(const device_lane *lane, int32_t rows, int32_t seq,
                                 int32_t hidden, const uint8_t *bytes, const void *token,
                                 const void *position, void *y)
{
    const tryst_dtype dtype = lane->session->dtype;
    const size_t width = (size_t)hidden;
    for (size_t i = 0; i < (size_t)rows; i++) {
        const size_t token_at = bytes[i] * width, position_at = i % (size_t)seq * width;
        for (size_t j = 0; j < width; j++) {
            double value = number_get(token, dtype, token_at + j);
            value += position ? number_get(position, dtype, position_at + j) : 0;
            number_put(y, dtype, i * width + j, value);
        }
    }
}

/* Sum of one column of dy over the rows of a byte. */
static double embedding_token_sum(const device_lane *lane, int32_t rows, size_t width,
                                  const uint8_t *bytes, size_t byte, const void *dy,
                                  size_t column)
{
    double sum = 0;
    for (size_t i = 0; i < (size_t)rows; i++) {
        if (bytes[i] == byte) {
            sum += number_get(dy, lane->session->dtype, i * width + column);
        }
    }
    return sum;
}

static double embedding_position_sum(const device_lane *lane, int32_t rows, size_t width,
                                     size_t position, size_t seq, const void *dy,
                                     size_t column)
{
    double sum = 0;
    for (size_t i = position; i < (size_t)rows; i += seq) {
        sum += number_get(dy, lane->session->dtype, i * width + column);
    }
    return sum;
}

void reference_embedding_backward(const device_lane *lane, int32_t rows, int32_t seq,
                                  int32_t hidden, int32_t vocabulary,
                                  const uint8_t *bytes, const void *dy, void *dtoken,
                                  void *dposition)
{
    const tryst_dtype wide = lane->session->wide;
    const size_t width = (size_t)hidden;
    for (size_t byte = 0; byte < (size_t)vocabulary; byte++) {
        for (size_t j = 0; j < width; j++) {
            number_add(dtoken, wide, byte * width + j,
                       embedding_token_sum(lane, rows, width, bytes, byte, dy, j));
        }
    }
    for (size_t position = 0; dposition && position < (size_t)seq; position++) {
        for (size_t j = 0; j < width; j++) {
            number_add(
                dposition, wide, position * width + j,
                embedding_position_sum(lane, rows, width, position, (size_t)seq, dy, j));
        }
    }
}
