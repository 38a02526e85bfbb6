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
    return 2 * rows * stack->layers * cells + layers_space(stack, rows, tokens) + 2 * rows * stack->hidden +
           (rows + 2) * padded(predictor->codes);
}

/* Draws `codes [rows, books]`, from the first two tokens of each row, `x [rows, 2, hidden]`. */
void run_predictor(const Predictor *predictor, const float *x, int64_t rows, const Settings *settings, int64_t *codes,
                   float *space, int64_t *tables, int64_t *positions) {
    const Stack *stack = predictor->stack;
    int64_t hidden = stack->hidden, tokens = predictor->books + 1, width = padded(predictor->codes);
    int64_t layer_size = rows * tokens * stack->kv_heads * stack->head_dim;
    int64_t cell_size = stack->kv_heads * stack->head_dim;
    Cache cache = {space, space + stack->layers * layer_size, layer_size, tokens, cell_size, 1, 0, tables};
    float *token = space + 2 * stack->layers * layer_size, *normed = token + rows * hidden;
    float *scores = normed + rows * hidden, *sorting = scores + rows * width, *inner = sorting + 2 * width;
    for (int64_t row = 0; row < rows; row++) tables[row] = row;
    for (int64_t at = 0; at < tokens; at++) {
        const float *cosines = predictor->cosines ? predictor->cosines + at * stack->head_dim : 0;
        const float *sines = predictor->sines ? predictor->sines + at * stack->head_dim : 0;
        for (int64_t row = 0; row < rows; row++) {
            const float *from = x + (2 * row + at) * hidden;
            if (at > 1) {
                int64_t code = codes[row * predictor->books + at - 2];
                from = predictor->inputs + ((at - 2) * predictor->codes + code) * hidden;
            }
            memcpy(token + row * hidden, from, hidden * sizeof(float));
            positions[row] = at;
        }
        run_layers(stack, &cache, token, rows, positions, cosines, sines, 0, inner, 0, 0);
        if (!at) continue;
        for (int64_t row = 0; row < rows; row++)
            normalise(token + row * hidden, predictor->norm, stack->eps, hidden, normed + row * hidden);
        multiply(predictor->heads[at - 1], predictor->format, 0, normed, rows, hidden, width, scores);
        for (int64_t row = 0; row < rows; row++)
            codes[row * predictor->books + at - 1] =
                draw(scores + row * width, predictor->codes, settings, row, at, sorting);
    }
}
