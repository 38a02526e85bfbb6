/* The codes of a frame after the first: layers, a head and a draw per codebook, all in one call. */
#include "layers.h"
#include "sampling.h"

typedef struct {
    const Stack *stack;
    const float *norm;        /* before the heads */
    const void *const *heads; /* packed, one per codebook */
    const float *inputs;      /* [books, codes, hidden] */
    const float *cosines, *sines; /* [books + 1, head_dim]; may be missing */
    int64_t books, codes, format; /* of the heads */
} Predictor;

/* Floats that `run_predictor` needs to work in, keys and values included. */
int64_t predictor_space(const Predictor *predictor, int64_t rows) {
    const Stack *stack = predictor->stack;
    int64_t tokens = predictor->books + 1, cells = tokens * stack->kv_heads * stack->head_dim;
    return 2 * rows * stack->layers * cells + layers_space(stack, 2 * rows, tokens) + 3 * rows * stack->hidden +
           4 * rows * stack->head_dim + (rows + 2) * padded(predictor->codes);
}

/* Draws `codes [rows, books]`, from the first two tokens of each row, `x [rows, 2, hidden]`: these two run together, so
   that the weights are read once for both. `tables` and `positions` have room for two tokens of each row. */
void run_predictor(const Predictor *predictor, const float *x, int64_t rows, const Settings *settings, int64_t *codes,
                   float *space, int64_t *tables, int64_t *positions) {
    const Stack *stack = predictor->stack;
    int64_t hidden = stack->hidden, dim = stack->head_dim, tokens = predictor->books + 1;
    int64_t width = padded(predictor->codes), cell_size = stack->kv_heads * dim, layer_size = rows * tokens * cell_size;
    Cache cache = {space, space + stack->layers * layer_size, layer_size, tokens, cell_size, 1, 0, tables};
    float *token = space + 2 * stack->layers * layer_size, *normed = token + 2 * rows * hidden;
    float *cosines = normed + rows * hidden, *sines = cosines + 2 * rows * dim;
    float *scores = sines + 2 * rows * dim, *sorting = scores + rows * width, *inner = sorting + 2 * width;
    for (int64_t book = 0; book < predictor->books; book++) {
        int64_t count = book ? 1 : 2;
        for (int64_t i = 0; i < rows * count; i++) {
            int64_t row = i / count, at = book ? book + 1 : i % 2;
            const float *from = x + i * hidden;
            if (book) {
                int64_t code = codes[row * predictor->books + book - 1];
                from = predictor->inputs + ((book - 1) * predictor->codes + code) * hidden;
            }
            memcpy(token + i * hidden, from, hidden * sizeof(float));
            tables[i] = row;
            positions[i] = at;
            if (!predictor->cosines) continue;
            memcpy(cosines + i * dim, predictor->cosines + at * dim, dim * sizeof(float));
            memcpy(sines + i * dim, predictor->sines + at * dim, dim * sizeof(float));
        }
        const int turns = predictor->cosines != 0;
        run_layers(stack, &cache, token, rows * count, positions, turns ? cosines : 0, turns ? sines : 0, dim, inner, 0,
                   0);
        for (int64_t row = 0; row < rows; row++)
            normalise(token + (row * count + count - 1) * hidden, predictor->norm, stack->eps, hidden,
                      normed + row * hidden);
        multiply(predictor->heads[book], predictor->format, 0, normed, rows, hidden, width, scores);
        for (int64_t row = 0; row < rows; row++)
            codes[row * predictor->books + book] =
                draw(scores + row * width, scores + row * width, predictor->codes, settings, row, book + 1, sorting);
    }
}
