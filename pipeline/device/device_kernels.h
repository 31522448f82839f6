/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a device stage: a table of functions, with one row (struct
 * device_kernels) for each kind of device. The row `reference` (plain C, on the host)
 * defines each operation; tests check that every other row computes the same.
 *
 * One idea: everything about *what* a stage computes is C over this table, so all of it
 * is tested without a device; a row is arithmetic and nothing else.
 *
 * Types. `T` is the session's dtype (BF16, F32; F64 in the reference and in a test of the
 * host's row), `wide` that of its sums (F32, or F64 under F64): means, losses, gradients,
 * master weights and moments are wide. All matrices are row-major and dense; `rows` are
 * positions, columns are features. Operations add to the gradients of weights, and
 * overwrite all other results.
 *
 * Lanes. A session has two streams: COMPUTE, for urgent work, and WEIGHT, which uses the
 * time left. Operations on one lane run in the order of the calls. No operation waits,
 * allocates on the device, or returns a status: the session keeps its first failure, and
 * `status` returns it. After a failure further work may be dropped.
 *
 * Invariant: equal arguments give equal bits on one device (no sum's order depends on
 * time).
 *
 * Thread: one thread at a time uses a session.
 *
 * This header is part of the module's ABI (stage_module.h). */
#ifndef TRYST_PIPELINE_DEVICE_DEVICE_KERNELS_H
#define TRYST_PIPELINE_DEVICE_DEVICE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tryst/stage.h>

struct device_kernels;
struct device_session;

enum { DEVICE_COMPUTE, DEVICE_WEIGHT, DEVICE_LANES };

/** Workspace of each lane of a device other than the host, for products: NVIDIA's advice
 *  for cuBLAS on Hopper. */
#define DEVICE_WORKSPACE_BYTES (32u << 20)

/** One stream of a session. The row sets `stream`, the stage sets `workspace`. */
struct device_lane {
    struct device_session *session;
    void *stream;
    /** DEVICE_WORKSPACE_BYTES bytes; for the row `host` device_host_workspace_bytes; NULL
     *  for `reference` */
    void *workspace;
    int32_t index;
};

/** First member of a row's own session. */
struct device_session {
    const struct device_kernels *kernels;
    struct device_lane lanes[DEVICE_LANES];
    tryst_precision precision;
    tryst_dtype dtype; /**< T */
    tryst_dtype wide;  /**< type of sums */
    int32_t device;
    /** Limit of a wait for the lanes (device_finish.h); set by the stage. */
    uint64_t timeout_ns;
    /** The first failure, with its sentence in `text`; TRYST_OK: none so far. */
    tryst_status status;
    char text[256];
};

enum device_epilogue {
    DEVICE_EPILOGUE_NONE,
    DEVICE_EPILOGUE_GELU, /**< aux = D without epilogue; D = gelu(aux) */
    DEVICE_EPILOGUE_DGELU /**< D = D without epilogue · gelu'(aux) */
};

/** D [m, n] = A [m, k] · B [k, n] + add + bias, sums in wide, rounded once. */
struct device_product {
    int32_t m, n, k;
    bool a_transposed; /**< A is stored [k, m] */
    bool b_transposed; /**< B is stored [n, k] */
    bool d_wide;       /**< D and `add` are wide, else T */
    /** With GELU, `add` is NULL and D is not wide; with DGELU, bias and add are NULL. */
    enum device_epilogue epilogue;
    const void *a, *b; /**< T */
    const void *bias;  /**< T [n]; NULL: none */
    const void *add;   /**< [m, n]; may be D; NULL: none */
    void *aux;         /**< T [m, n]; for the two GELU epilogues only */
    void *d;
};

/** Causal attention over `batch` windows of `seq` rows. A row of `qkv` holds q, k and v
 *  side by side, each [heads, width]. */
struct device_attention {
    int32_t batch, seq, heads, width;
    const void *qkv; /**< T [batch·seq, 3·heads·width] */
    void *attended;  /**< T [batch·seq, heads·width] */
    /** Wide [batch, heads, seq]: log of each row's sum of exp(q·k / √width). */
    void *lse;
    const void *dattended; /**< for backward, as `attended` */
    void *delta;           /**< scratch of backward, as `lse` */
    void *dqkv;            /**< for backward, as `qkv` */
};

/** One update of all weights of a stage (device_layout.h: arena). optimizer.c has the
 *  formulae. */
struct device_update {
    bool adam; /**< false: SGD with momentum */
    uint64_t count;
    double scale; /**< factor of the gradients */
    double lr, momentum;
    double rate, root, beta1, beta1_rest, beta2, beta2_rest, epsilon;
    const void *from;         /**< wide: weights before */
    void *to;                 /**< wide: weights after; may be `from` */
    void *rounded;            /**< T: weights after; NULL where T is wide */
    void *gradients;          /**< wide; the update sets them to zero */
    void *first, *second;     /**< wide: moments; `second` is NULL without Adam */
    double decay, decay_rest; /**< γ and 1 − γ of `delta` */
    /** Wide: mean change of the weights, delta = γ·delta + (1 − γ)·(after − before);
     *  NULL: not kept. */
    void *delta;
};

/** Weights moved along a direction: to = from + scale · direction. */
struct device_prediction {
    bool adam; /**< direction: first / (√second · root + epsilon); false: `first` */
    uint64_t count;
    double scale, root, epsilon;
    const void *from;           /**< wide */
    void *to;                   /**< T */
    const void *first, *second; /**< wide; `second` is NULL without Adam */
};

struct device_kernels {
    size_t struct_size;
    const char *name; /**< "host", "reference" or "cuda" */
    tryst_memory_kind memory;
    int32_t head_width_max; /**< widest attention head */

    /* ---- sessions and memory ------------------------------------------------------- */

    /** Open a session on `device`. Returns TRYST_OK, or with a sentence in `error`:
     *  TRYST_E_UNSUPPORTED (no driver, no such device, a precision that the device
     *  lacks), TRYST_E_NOMEM, TRYST_E_SYSTEM. */
    tryst_status (*open)(int32_t device, tryst_precision precision,
                         struct device_session **session_p, char *error,
                         size_t error_capacity);
    /** Close a session. Both lanes must be idle. Not called between enter and leave. */
    void (*close)(struct device_session *session);
    /** Make the session's device context current for the calling thread; leave restores
     *  the caller's context. All functions below but `status` are called between enter
     *  and leave. */
    void (*enter)(struct device_session *session);
    void (*leave)(struct device_session *session);
    /** Return the first failure so far, of enqueueing or of enqueued work. Does not
     *  wait. */
    tryst_status (*status)(struct device_session *session);
    /** Return TRYST_OK if the lane has ended its queued work, even if the work failed
     *  (the session keeps the failure), else TRYST_IN_PROGRESS. Does not wait. */
    tryst_status (*idle)(const struct device_lane *lane);
    /** Get the bytes that could be allocated now, and all bytes of the device. Both are 0
     *  if they are unknown. */
    void (*memory_left)(struct device_session *session, uint64_t *free_p,
                        uint64_t *total_p);
    /** Allocate memory, zeroed on COMPUTE. Returns TRYST_OK or TRYST_E_NOMEM. */
    tryst_status (*alloc)(struct device_session *session, uint64_t bytes, void **data_p);
    /** Free memory. Both lanes must be idle. NULL is allowed. */
    void (*free)(struct device_session *session, void *data);
    /** Allocate and free pinned host memory, which the device can read and write by
     *  itself. Rules as for alloc and free, but the memory is not always zeroed. */
    tryst_status (*pinned_alloc)(struct device_session *session, uint64_t bytes,
                                 void **data_p);
    void (*pinned_free)(struct device_session *session, void *data);
    /** Copy from host to device or back, on COMPUTE; with pageable memory the driver may
     *  wait. */
    void (*copy)(struct device_session *session, void *to, const void *from,
                 uint64_t bytes);

    /* ---- order --------------------------------------------------------------------- */

    /** Open an event; it counts as passed until it is first recorded. Returns TRYST_OK,
     *  TRYST_E_NOMEM or TRYST_E_SYSTEM. */
    tryst_status (*event_open)(struct device_session *session, void **event_p);
    void (*event_close)(struct device_session *session, void *event);
    /** Record an event on the lane, or let the lane wait for it. The event is the stage's
     *  own or its caller's. */
    void (*event_record)(const struct device_lane *lane, void *event);
    void (*event_wait)(const struct device_lane *lane, void *event);

    /* ---- arithmetic ---------------------------------------------------------------- */

    void (*product)(const struct device_lane *lane, const struct device_product *product);

    /** dbias [columns] += column sums of dy [rows, columns] */
    void (*column_sum)(const struct device_lane *lane, int32_t rows, int32_t columns,
                       const void *dy, void *dbias);

    /** y[row] = token[bytes[row]] + position[row mod seq]; position may be NULL. */
    void (*embedding_forward)(const struct device_lane *lane, int32_t rows, int32_t seq,
                              int32_t hidden, const uint8_t *bytes, const void *token,
                              const void *position, void *y);
    /** Add each row of dy to its rows of dtoken and dposition, in the order of rows.
     *  dtoken has `vocabulary` rows; dposition may be NULL. */
    void (*embedding_backward)(const struct device_lane *lane, int32_t rows, int32_t seq,
                               int32_t hidden, int32_t vocabulary, const uint8_t *bytes,
                               const void *dy, void *dtoken, void *dposition);

    /** y = (x − mean) · rstd · gain + bias, row by row; mean and rstd [rows] are wide. */
    void (*norm_forward)(const struct device_lane *lane, int32_t rows, int32_t width,
                         const void *x, const void *gain, const void *bias, void *y,
                         void *mean, void *rstd);
    /** dx = residual + the norm's input gradient; residual may be NULL (zero) or equal
     *  dx. */
    void (*norm_backward_input)(const struct device_lane *lane, int32_t rows,
                                int32_t width, const void *x, const void *gain,
                                const void *mean, const void *rstd, const void *dy,
                                const void *residual, void *dx);
    void (*norm_backward_weight)(const struct device_lane *lane, int32_t rows,
                                 int32_t width, const void *x, const void *mean,
                                 const void *rstd, const void *dy, void *dgain,
                                 void *dbias);

    /** Attention never allocates a [seq, seq] matrix. */
    void (*attention_forward)(const struct device_lane *lane,
                              const struct device_attention *attention);
    void (*attention_backward)(const struct device_lane *lane,
                               const struct device_attention *attention);

    /** GELU in its tanh form: dx = dy · gelu'(x); dx may be dy. */
    void (*gelu_backward)(const struct device_lane *lane, uint64_t count, const void *x,
                          const void *dy, void *dx);
    /** y = a + b; y may be a or b. */
    void (*add)(const struct device_lane *lane, uint64_t count, const void *a,
                const void *b, void *y);

    /** y = x; the arrays do not overlap. */
    void (*duplicate)(const struct device_lane *lane, uint64_t count, const void *x,
                      void *y);

    /** losses [rows] = lse − logits[target], lse [rows] = log Σ exp(logits); all wide. */
    void (*cross_entropy_forward)(const struct device_lane *lane, int32_t rows,
                                  int32_t classes, const void *logits,
                                  const uint8_t *target, void *losses, void *lse);
    /** dlogits (T) = (exp(logits − lse) − onehot(target)) · weight. */
    void (*cross_entropy_backward)(const struct device_lane *lane, int32_t rows,
                                   int32_t classes, double weight, const void *logits,
                                   const uint8_t *target, const void *lse, void *dlogits);
    /** *mean = mean of `losses` (wide), summed in fp64. */
    void (*loss_mean)(const struct device_lane *lane, int32_t rows, const void *losses,
                      double *mean);

    void (*update)(const struct device_lane *lane, const struct device_update *update);
    void (*predict)(const struct device_lane *lane,
                    const struct device_prediction *prediction);
    /** y (T) = `wide`, rounded. */
    void (*round)(const struct device_lane *lane, uint64_t count, const void *wide,
                  void *y);
};

/** Return the bytes of an element of type BF16, F32 or F64. */
static inline uint64_t device_dtype_bytes(tryst_dtype dtype)
{
    return dtype == TRYST_DTYPE_F64 ? 8u : dtype == TRYST_DTYPE_BF16 ? 2u : 4u;
}

/** Return T of a precision; device_precision_wide returns wide. */
static inline tryst_dtype device_precision_dtype(tryst_precision precision)
{
    switch (precision) {
    case TRYST_PRECISION_BF16: return TRYST_DTYPE_BF16;
    case TRYST_PRECISION_F64: return TRYST_DTYPE_F64;
    default: return TRYST_DTYPE_F32;
    }
}

static inline tryst_dtype device_precision_wide(tryst_precision precision)
{
    return precision == TRYST_PRECISION_F64 ? TRYST_DTYPE_F64 : TRYST_DTYPE_F32;
}

/** Set the session's status, unless the session has failed before. */
static inline void device_session_fail(struct device_session *session,
                                       tryst_status status)
{
    if (session->status == TRYST_OK) {
        session->status = status;
    }
}

/** The row in plain C. */
extern const struct device_kernels device_kernels_reference;

#endif
