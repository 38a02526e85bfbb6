/* Decoder layers of a few tokens, a row each: what a decode step spends its time on.
   Every row is computed as if it were alone: sums have the same order in any batch. */
#include <sched.h>
#include <time.h>

#include "bytes.h"
#include "layers.h"

/* Rows and panels whose sums fit into the registers: with 32 of them several panels, so that no sum waits for its last
   addition, and memory is read in several places. */
enum { VECTORS = PANEL / WIDE, BLOCK = 3, PANELS = (int)WIDE > (int)LANES ? 4 : 1 };

static inline __attribute__((always_inline)) void panel(
    const void *weights, const int is_half, const float *x, int64_t inputs, const float *bias, float *out,
    int64_t out_stride, const int rows, const int panels) {
    Wide sums[BLOCK][VECTORS * PANELS];
    UNROLL for (int row = 0; row < rows; row++)
        UNROLL for (int i = 0; i < VECTORS * panels; i++)
            sums[row][i] = bias ? *(const Wide *)(bias + WIDE * i) : (Wide){0};
    for (int64_t k = 0; k < inputs; k++)
        UNROLL for (int i = 0; i < VECTORS * panels; i++) {
            int64_t at = (i / VECTORS * inputs + k) * PANEL + i % VECTORS * WIDE;
            Wide weight = is_half ? widen_all((const uint16_t *)weights + at)
                                  : *(const Wide *)((const float *)weights + at);
            UNROLL for (int row = 0; row < rows; row++) sums[row][i] += weight * x[row * inputs + k];
        }
    UNROLL for (int row = 0; row < rows; row++)
        UNROLL for (int i = 0; i < VECTORS * panels; i++) *(Wide *)(out + row * out_stride + WIDE * i) = sums[row][i];
}

static inline __attribute__((always_inline)) void rows_of_panels(
    const void *weights, const int is_half, const float *x, int64_t rows, int64_t inputs, const float *bias, float *out,
    int64_t outputs, const int panels) {
    int64_t row = 0;
    for (; row + BLOCK <= rows && row + 4 != rows; row += BLOCK)
        panel(weights, is_half, x + row * inputs, inputs, bias, out + row * outputs, outputs, BLOCK, panels);
    for (; row + 2 <= rows; row += 2)
        panel(weights, is_half, x + row * inputs, inputs, bias, out + row * outputs, outputs, 2, panels);
    if (row < rows) panel(weights, is_half, x + row * inputs, inputs, bias, out + row * outputs, outputs, 1, panels);
}

static inline __attribute__((always_inline)) void all_panels(
    const void *weights, const int is_half, const float *x, int64_t rows, int64_t inputs, const float *bias, float *out,
    int64_t outputs) {
    int64_t first = 0, size = inputs * (is_half ? 2 : 4); /* of the weights of one output */
    for (; first + PANELS * PANEL <= outputs; first += PANELS * PANEL)
        rows_of_panels((const char *)weights + first * size, is_half, x, rows, inputs, bias ? bias + first : 0,
                       out + first, outputs, PANELS);
    for (; first < outputs; first += PANEL)
        rows_of_panels((const char *)weights + first * size, is_half, x, rows, inputs, bias ? bias + first : 0,
                       out + first, outputs, 1);
}

/* out [rows, outputs] = x [rows, inputs] times packed weights; outputs are whole panels. */
void multiply(const void *weights, int64_t format, const float *bias, const float *x, int64_t rows, int64_t inputs,
              int64_t outputs, float *out) {
    if (format == BYTES) {
        multiply_bytes(weights, bias, x, rows, inputs, outputs, out);
        return;
    }
    if (format == HALVES) all_panels(weights, 1, x, rows, inputs, bias, out, outputs);
    else all_panels(weights, 0, x, rows, inputs, bias, out, outputs);
}

/* Whether weights of 16 bits are read faster than floats: only where one instruction converts many of them. */
int64_t reads_half(void) {
#if defined(__F16C__)
    return 1;
#else
    return 0;
#endif
}

/* Sums of products of vectors: eight sums, whatever the machine's vectors, and a size that is a multiple of eight. */
static float dot(const float *a, const float *b, int64_t size) {
    float sums[8] = {0};
    for (int64_t i = 0; i < size; i += 8)
        UNROLL for (int j = 0; j < 8; j++) sums[j] += a[i + j] * b[i + j];
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

void normalise(const float *x, const float *weight, double eps, int64_t size, float *out) {
    float scale = 1.0f / sqrtf(dot(x, x, size) / (float)size + (float)eps);
    for (int64_t i = 0; i < size; i++) out[i] = x[i] * scale * weight[i];
}

static void rotate(float *x, const float *cosines, const float *sines, int64_t size) {
    int64_t half = size / 2; /* the sines of the first half are negated already */
    for (int64_t i = 0; i < half; i++) {
        float low = x[i], high = x[half + i];
        x[i] = low * cosines[i] + high * sines[i];
        x[half + i] = high * cosines[half + i] + low * sines[half + i];
    }
}

static float *cell(float *base, const Cache *cache, const int64_t *table, int64_t layer, int64_t position) {
    int64_t page = table[cache->is_ring ? 0 : position / cache->page_size], offset = position % cache->page_size;
    return base + layer * cache->layer_size + (page * cache->page_size + offset) * cache->cell_size;
}

static void keep(const Stack *stack, const Cache *cache, const int64_t *table, int64_t layer, int64_t position,
                 const float *qkv) {
    int64_t width = stack->kv_heads * stack->head_dim;
    const float *key = qkv + stack->heads * stack->head_dim;
    memcpy(cell(cache->keys, cache, table, layer, position), key, width * sizeof(float));
    memcpy(cell(cache->values, cache, table, layer, position), key + width, width * sizeof(float));
}

/* Attention of one row, whose queries are replaced by the result. */
static void attend(const Stack *stack, const Cache *cache, const int64_t *table, int64_t layer, int64_t position,
                   float *qkv, float *scores) {
    int64_t dim = stack->head_dim, group = stack->heads / stack->kv_heads;
    const float scale = 1.0f / sqrtf((float)dim);
    int64_t first = cache->is_ring && position >= cache->page_size ? position - cache->page_size + 1 : 0;
    for (int64_t i = 0; i < stack->heads * dim; i++) qkv[i] *= scale;
    for (int64_t head = 0; head < stack->heads; head++) {
        float *query = qkv + head * dim, most = -INFINITY, total = 0;
        int64_t of = head / group * dim;
        for (int64_t past = first; past <= position; past++) {
            scores[past - first] = dot(query, cell(cache->keys, cache, table, layer, past) + of, dim);
            if (scores[past - first] > most) most = scores[past - first];
        }
        memset(query, 0, dim * sizeof(float));
        for (int64_t past = first; past <= position; past++) {
            const float *value = cell(cache->values, cache, table, layer, past) + of;
            float share = expf(scores[past - first] - most);
            total += share;
            for (int64_t i = 0; i < dim; i++) query[i] += share * value[i];
        }
        for (int64_t i = 0; i < dim; i++) query[i] /= total;
    }
}

static void prepare_heads(const Stack *stack, const Layer *layer, const float *cosines, const float *sines,
                          float *qkv) {
    int64_t dim = stack->head_dim;
    for (int64_t head = 0; head < stack->heads + stack->kv_heads; head++) {
        const float *weight = head < stack->heads ? layer->query_norm : layer->key_norm;
        if (weight) normalise(qkv + head * dim, weight, stack->head_eps, dim, qkv + head * dim);
        if (cosines) rotate(qkv + head * dim, cosines, sines, dim);
    }
}

/* Returns 0 if the other thread has failed. It usually works in step; on a busy machine it may be long in coming. */
static int64_t wait_for(int64_t *progress, int64_t layers) {
    for (int64_t tries = 0;; tries++) {
        int64_t kept = __atomic_load_n(progress, __ATOMIC_ACQUIRE);
        if (kept < 0) return 0;
        if (kept >= layers) return 1;
        if (tries < 1000) sched_yield();
        else nanosleep(&(struct timespec){.tv_nsec = 50000}, 0);
    }
}

/* Floats that `run_layers` needs to work in, for rows whose positions are below `positions`. */
int64_t layers_space(const Stack *stack, int64_t rows, int64_t positions) {
    int64_t heads = (stack->heads + 2 * stack->kv_heads) * stack->head_dim;
    return rows * (2 * padded(stack->hidden) + padded(heads) + stack->heads * stack->head_dim +
                   padded(2 * stack->ffn) + stack->ffn) + positions;
}

/* Runs all layers on `x [rows, hidden]`, in place, without the last norm. Each row has its
   rotary angles; there may be none. Rows of one request are in the order of their positions.
   Two threads may share the rows. The one with the earlier rows tells in `progress` how many layers' keys and values
   it has kept; the other one `follows`, and waits for those of each layer. A `progress` below 0 is a failure.
   Returns 0, and does nothing, where a position has no page. */
int64_t run_layers(const Stack *stack, const Cache *cache, float *x, int64_t rows, const int64_t *positions,
                   const float *cosines, const float *sines, int64_t angle_stride, float *space, int64_t *progress,
                   int64_t follows) {
    int64_t hidden = stack->hidden, dim = stack->head_dim, queries = stack->heads * dim, ffn = stack->ffn;
    int64_t heads = padded(queries + 2 * stack->kv_heads * dim), wide = padded(2 * ffn), format = stack->format;
    float *normed = space, *qkv = normed + rows * hidden, *attended = qkv + rows * heads;
    float *inner = attended + rows * queries, *gated = inner + rows * wide, *made = gated + rows * ffn;
    float *scores = made + rows * padded(hidden);
    for (int64_t row = 0; row < rows; row++)
        if (positions[row] < 0 || (!cache->is_ring && positions[row] >= cache->page_size * cache->table_size)) {
            if (progress) __atomic_store_n(progress, -1, __ATOMIC_RELEASE);
            return 0;
        }
    for (int64_t i = 0; i < stack->layers; i++) {
        const Layer *layer = stack->layer + i;
        for (int64_t row = 0; row < rows; row++)
            normalise(x + row * hidden, layer->input_norm, stack->eps, hidden, normed + row * hidden);
        multiply(layer->qkv, format, layer->qkv_bias, normed, rows, hidden, heads, qkv);
        for (int64_t row = 0; row < rows; row++) {
            const float *c = cosines ? cosines + row * angle_stride : 0, *s = sines ? sines + row * angle_stride : 0;
            prepare_heads(stack, layer, c, s, qkv + row * heads);
            const int64_t *table = cache->tables + row * cache->table_size;
            if (!cache->is_ring) keep(stack, cache, table, i, positions[row], qkv + row * heads);
        }
        if (progress && !follows) __atomic_store_n(progress, i + 1, __ATOMIC_RELEASE);
        if (progress && follows && !wait_for(progress, i + 1)) return 0;
        for (int64_t row = 0; row < rows; row++) {
            const int64_t *table = cache->tables + row * cache->table_size;
            if (cache->is_ring) keep(stack, cache, table, i, positions[row], qkv + row * heads); /* over the oldest */
            attend(stack, cache, table, i, positions[row], qkv + row * heads, scores);
            memcpy(attended + row * queries, qkv + row * heads, queries * sizeof(float));
        }
        multiply(layer->output, format, layer->output_bias, attended, rows, queries, padded(hidden), made);
        for (int64_t row = 0; row < rows; row++) {
            float *to = x + row * hidden;
            for (int64_t j = 0; j < hidden; j++) to[j] += made[row * padded(hidden) + j];
            normalise(to, layer->inner_norm, stack->eps, hidden, normed + row * hidden);
        }
        multiply(layer->gate_up, format, 0, normed, rows, hidden, wide, inner);
        for (int64_t row = 0; row < rows; row++)
            for (int64_t j = 0; j < ffn; j++) {
                float gate = inner[row * wide + j];
                gated[row * ffn + j] = gate / (1.0f + expf(-gate)) * inner[row * wide + ffn + j];
            }
        multiply(layer->down, format, 0, gated, rows, ffn, padded(hidden), made);
        for (int64_t row = 0; row < rows; row++)
            for (int64_t j = 0; j < hidden; j++) x[row * hidden + j] += made[row * padded(hidden) + j];
    }
    return 1;
}
