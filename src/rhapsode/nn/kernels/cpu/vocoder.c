/* The convolutions of a vocoder, one after the other, for one row that continues a slot. Channels are last.
   A sample is one sum in a fixed order, however the stream is cut. */
#include "vectors.h"

/* A block is TIMES samples of PARTS vectors of outputs: as many sums as there are registers for them. */
#if defined(__AVX512F__)
enum { PARTS = 1, TIMES = 16, PANELS = 2 }; /* or half as many samples of two panels */
#elif defined(__AVX__)
enum { PARTS = 2, TIMES = 6, PANELS = 1 };
#else
enum { PARTS = 2, TIMES = 8, PANELS = 1 };
#endif
enum { WIDTH = WIDE * PARTS };

typedef struct {
    const float *weight; /* [outputs / WIDTH, taps, inputs, WIDTH] */
    const float *bias;   /* [outputs], padded to whole panels */
    const float *frequency, *size; /* SnakeBeta of the input; may be missing */
    int64_t inputs, outputs, taps, dilation;
    int64_t repeat;   /* samples per input; the outputs of one input are those of all its samples */
    int64_t tail;     /* where the last inputs of a slot are, in floats; there are (taps - 1) * dilation of them */
    int64_t keeps;    /* 1: the input is added to the result of the next step with `adds` */
    int64_t adds;
} Convolution;

int64_t panel_width(void) { return WIDTH; }

/* x + size * sin(frequency * x)^2: the square has a period of pi, so the sign of the sine does not matter. */
#if defined(__AVX512F__) && !defined(__clang__)
__attribute__((target("prefer-vector-width=512")))
#endif
static void snake(const float *x, const float *frequency, const float *size, int64_t samples, int64_t channels,
                  float *out) {
    for (int64_t t = 0; t < samples; t++, x += channels, out += channels)
        for (int64_t i = 0; i < channels; i++) {
            float angle = frequency[i] * x[i], turns = rintf(angle * (float)M_1_PI);
            float rest = angle - turns * 3.14159274101257324f + turns * 8.74227765734758577e-8f; /* pi in two parts */
            float square = rest * rest, series = -2.50521083854417188e-8f;
            series = series * square + 2.75573192239858907e-6f;
            series = series * square - 1.98412698412698413e-4f;
            series = series * square + 8.33333333333333333e-3f;
            series = series * square - 1.66666666666666667e-1f;
            float sine = series * square * rest + rest;
            out[i] = x[i] + size[i] * sine * sine;
        }
}

static inline __attribute__((always_inline)) void block(const Convolution *conv, const float *weight, const float *bias,
                                                        const float *x, float *out, int64_t stride, const int times,
                                                        const int panels) {
    int64_t inputs = conv->inputs, next = conv->taps * inputs * WIDTH; /* panel */
    const int parts = PARTS * panels;
    Wide sums[TIMES * PARTS]; /* [times, parts] */
    UNROLL for (int t = 0; t < times; t++)
        UNROLL for (int part = 0; part < parts; part++) sums[t * parts + part] = *(const Wide *)(bias + part * WIDE);
    for (int64_t tap = 0; tap < conv->taps; tap++) {
        const float *from = x + tap * conv->dilation * inputs;
        int64_t i = 0;
#if defined(__ARM_NEON) /* which multiplies by one lane of a vector: fewer loads */
        for (; i + LANES <= inputs; i += LANES) {
            Lanes past[TIMES];
            UNROLL for (int t = 0; t < times; t++) past[t] = *(const Lanes *)(from + t * inputs + i);
            UNROLL for (int lane = 0; lane < LANES; lane++, weight += WIDTH)
                UNROLL for (int part = 0; part < PARTS; part++) {
                    Lanes weights = *(const Lanes *)(weight + part * LANES);
                    UNROLL for (int t = 0; t < times; t++) sums[t * parts + part] += weights * past[t][lane];
                }
        }
#endif
        for (; i < inputs; i++, weight += WIDTH)
            UNROLL for (int t = 0; t < times; t++)
                UNROLL for (int part = 0; part < parts; part++) {
                    const float *weights = weight + part / PARTS * next + part % PARTS * WIDE;
                    sums[t * parts + part] += *(const Wide *)weights * from[t * inputs + i];
                }
    }
    UNROLL for (int t = 0; t < times; t++)
        UNROLL for (int part = 0; part < parts; part++)
            *(Wide *)(out + t * stride + part * WIDE) = sums[t * parts + part];
}

/* Some samples of one panel or several; the outputs of the last panel may be fewer than it has. */
static inline __attribute__((always_inline)) void some(const Convolution *conv, int64_t first, const float *x,
                                                       float *out, const int times, const int panels) {
    const float *weight = conv->weight + first * conv->taps * conv->inputs;
    int64_t valid = conv->outputs - first < WIDTH ? conv->outputs - first : WIDTH;
    if (panels > 1 || (valid == WIDTH && !conv->adds)) {
        block(conv, weight, conv->bias + first, x, out, conv->outputs, times, panels);
        return;
    }
    float made[TIMES * WIDTH];
    block(conv, weight, conv->bias + first, x, made, WIDTH, times, 1);
    for (int t = 0; t < times; t++)
        for (int64_t i = 0; i < valid; i++)
            out[t * conv->outputs + i] = made[t * WIDTH + i] + (conv->adds ? out[t * conv->outputs + i] : 0);
}

static inline __attribute__((always_inline)) void all(const Convolution *conv, int64_t first, const float *x,
                                                      int64_t samples, float *out, const int panels) {
    const int times = TIMES / panels;
    int64_t inputs = conv->inputs, outputs = conv->outputs, t = 0;
    for (; t + times <= samples && samples - t != times + 2; t += times) /* then two times four, not six and two */
        some(conv, first, x + t * inputs, out + t * outputs, times, panels);
    for (; t + 4 <= samples; t += 4) some(conv, first, x + t * inputs, out + t * outputs, 4, panels);
    for (; t < samples; t++) some(conv, first, x + t * inputs, out + t * outputs, 1, panels);
}

#if defined(__AVX512F__)
/* As many samples of all whole pairs of panels. With few samples many panels share a loop, so that no sum waits for its
   last addition. */
static inline __attribute__((always_inline)) void few(const Convolution *conv, const float *x, float *out,
                                                      const int times) {
    const int panels = TIMES / times < 8 ? TIMES / times : 8;
    int64_t first = 0;
    for (; first + panels * WIDTH <= conv->outputs; first += panels * WIDTH)
        some(conv, first, x, out + first, times, panels);
    for (; first + PANELS * WIDTH <= conv->outputs; first += PANELS * WIDTH)
        some(conv, first, x, out + first, times, PANELS);
}
#endif

static void convolve(const Convolution *conv, const float *x, int64_t samples, float *out) {
    int64_t first = 0;
#if defined(__AVX512F__)
    if (!conv->adds) {
        int64_t inputs = conv->inputs, outputs = conv->outputs, t = samples / (TIMES / PANELS) * (TIMES / PANELS);
        for (; first + PANELS * WIDTH <= outputs; first += PANELS * WIDTH) all(conv, first, x, t, out + first, PANELS);
        for (; t + 4 <= samples; t += 4) few(conv, x + t * inputs, out + t * outputs, 4);
        for (; t + 2 <= samples; t += 2) few(conv, x + t * inputs, out + t * outputs, 2);
        for (; t < samples; t++) few(conv, x + t * inputs, out + t * outputs, 1);
    }
#endif
    for (; first < conv->outputs; first += WIDTH) all(conv, first, x, samples, out + first, 1);
}

/* Runs `count` convolutions on `x [samples, inputs of the first]`; the result is in `out`, and the tails move on.
   `space` has three parts of `part` floats each. */
void run_vocoder(const Convolution *convs, int64_t count, const float *x, int64_t samples, float *tails, float *space,
                 int64_t part, float *out) {
    float *joined = space, *spare[2] = {space + part, space + 2 * part};
    float *kept = 0;
    for (int64_t i = 0; i < count; i++) {
        const Convolution *conv = convs + i;
        int64_t past = (conv->taps - 1) * conv->dilation * conv->inputs, size = samples * conv->inputs;
        memcpy(joined, tails + conv->tail, past * sizeof(float));
        if (conv->frequency) snake(x, conv->frequency, conv->size, samples, conv->inputs, joined + past);
        else memcpy(joined + past, x, size * sizeof(float));
        memcpy(tails + conv->tail, joined + size, past * sizeof(float));
        if (conv->keeps) kept = (float *)x;
        float *to = conv->adds ? kept : i == count - 1 ? out : kept == spare[0] ? spare[1] : spare[0];
        convolve(conv, joined, samples, to);
        if (conv->adds && i == count - 1) memcpy(out, to, samples * conv->outputs * sizeof(float));
        if (conv->adds) kept = 0;
        samples *= conv->repeat;
        x = to;
    }
}
