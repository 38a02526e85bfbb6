/* A stack of decoder layers, and where it keeps keys and values. */
#ifndef RHAPSODE_LAYERS_H
#define RHAPSODE_LAYERS_H

#include "vectors.h"

enum { PANEL = 32 }; /* outputs that are computed together */
enum { FLOATS, HALVES, BYTES }; /* formats of packed weights */

typedef struct {
    const void *qkv, *output, *gate_up, *down; /* packed: panels of outputs, inputs first */
    const float *input_norm, *inner_norm, *query_norm, *key_norm; /* the last two may be missing */
    const float *qkv_bias, *output_bias;                          /* may be missing */
} Layer;

typedef struct {
    int64_t hidden, ffn, layers, heads, kv_heads, head_dim, format;
    double eps, head_eps;
    const Layer *layer;
} Stack;

typedef struct { /* keys and values: cell (layer, page, offset) is [kv_heads, head_dim] */
    float *keys, *values;
    int64_t layer_size, page_size, cell_size, table_size;
    int64_t is_ring;       /* a row has one page, a ring of its last `page_size` positions, and attends to no others */
    const int64_t *tables; /* [rows, table_size], pages */
} Cache;

static inline int64_t padded(int64_t outputs) { return (outputs + PANEL - 1) / PANEL * PANEL; }

void normalise(const float *x, const float *weight, double eps, int64_t size, float *out);

void multiply(const void *weights, int64_t format, const float *bias, const float *x, int64_t rows, int64_t inputs,
              int64_t outputs, float *out);

int64_t layers_space(const Stack *stack, int64_t rows, int64_t positions);

int64_t run_layers(const Stack *stack, const Cache *cache, float *x, int64_t rows, const int64_t *positions,
                   const float *cosines, const float *sines, int64_t angle_stride, float *space, int64_t *progress,
                   int64_t follows);

#endif
