/* Products of 8-bit numbers: sums of whole numbers, so their order does not matter.
   Inputs are rounded with a scale for every span of them, so that one large input costs only its neighbours precision. */
#include "bytes.h"

#include "layers.h"

enum { SPAN = 64, GROUP = 4, SOME = 12, BLOCK = 3, VECTORS = PANEL / LANES };

typedef int32_t Counts __attribute__((vector_size(LANES * 4), aligned(4)));

/* Adds to each lane the products of four weights of its own with the same four inputs. */
static inline __attribute__((always_inline)) Counts dots(Counts sums, const int8_t *weights, int32_t inputs) {
#if defined(__ARM_FEATURE_DOTPROD)
    return (Counts)vdotq_s32((int32x4_t)sums, vld1q_s8(weights), vreinterpretq_s8_s32(vdupq_n_s32(inputs)));
#elif defined(__AVX2__)
    __m256i weight = _mm256_loadu_si256((const __m256i *)weights), input = _mm256_set1_epi32(inputs);
    __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weight), _mm256_sign_epi8(input, weight)); /* at most 32,258 */
    return sums + (Counts)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#else
    int8_t four[GROUP];
    memcpy(four, &inputs, GROUP);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < GROUP; i++) sums[lane] += weights[GROUP * lane + i] * four[i];
    return sums;
#endif
}

static inline __attribute__((always_inline)) void panel(
    const float *weight_scales, const int8_t *x, const float *x_scales, int64_t spans, const float *bias, float *out,
    int64_t out_stride, const int rows) {
    const int8_t *weights = (const int8_t *)(weight_scales + PANEL);
    Lanes sums[BLOCK][VECTORS];
    UNROLL for (int row = 0; row < rows; row++)
        UNROLL for (int i = 0; i < VECTORS; i++) sums[row][i] = (Lanes){0};
    for (int64_t span = 0; span < spans; span++) {
        Counts counts[BLOCK][VECTORS];
        UNROLL for (int row = 0; row < rows; row++)
            UNROLL for (int i = 0; i < VECTORS; i++) counts[row][i] = (Counts){0};
        for (int64_t k = span * SPAN; k < (span + 1) * SPAN; k += GROUP) {
            int32_t inputs[BLOCK];
            UNROLL for (int row = 0; row < rows; row++) memcpy(inputs + row, x + row * spans * SPAN + k, GROUP);
            UNROLL for (int i = 0; i < VECTORS; i++) {
                UNROLL for (int row = 0; row < rows; row++)
                    counts[row][i] = dots(counts[row][i], weights, inputs[row]);
                weights += GROUP * LANES;
            }
        }
        UNROLL for (int row = 0; row < rows; row++)
            UNROLL for (int i = 0; i < VECTORS; i++)
                sums[row][i] += __builtin_convertvector(counts[row][i], Lanes) * x_scales[row * spans + span];
    }
    UNROLL for (int row = 0; row < rows; row++)
        UNROLL for (int i = 0; i < VECTORS; i++) {
            Lanes made = sums[row][i] * load(weight_scales + LANES * i);
            store(out + row * out_stride + LANES * i, bias ? made + load(bias + LANES * i) : made);
        }
}

/* Rounds a row to numbers of -127 to 127, with zeros after its end, and returns the scale of every span. */
static void round_row(const float *x, int64_t inputs, int64_t spans, int8_t *rounded, float *scales) {
    memset(rounded + inputs, 0, spans * SPAN - inputs);
    for (int64_t span = 0; span < spans; span++) {
        int64_t first = span * SPAN, count = inputs - first < SPAN ? inputs - first : SPAN;
        float most = 0, nothing = 0;
        for (int64_t i = 0; i < count; i++) {
            most = fabsf(x[first + i]) > most ? fabsf(x[first + i]) : most;
            nothing += x[first + i] * 0; /* but of numbers that are not finite: what they make must not be either */
        }
        scales[span] = most / 127 + nothing;
        const float steps = most > 0 ? 127 / most : 0;
        for (int64_t i = 0; i < count; i++) {
            union { float value; int32_t bits; } sum = {.value = x[first + i] * steps + 0x1.8p23f};
            rounded[first + i] = (int8_t)sum.bits; /* what is left of a float of this size are whole numbers */
        }
    }
}

void multiply_bytes(const void *weights, const float *bias, const float *x, int64_t rows, int64_t inputs,
                    int64_t outputs, float *out) {
    int64_t spans = (inputs + SPAN - 1) / SPAN, width = spans * SPAN;
    int8_t rounded[SOME * width];
    float scales[SOME * spans];
    for (int64_t done = 0; done < rows; done += SOME) {
        int64_t some = rows - done < SOME ? rows - done : SOME;
        for (int64_t row = 0; row < some; row++)
            round_row(x + (done + row) * inputs, inputs, spans, rounded + row * width, scales + row * spans);
        for (int64_t first = 0; first < outputs; first += PANEL) {
            const float *from = (const float *)((const char *)weights + first / PANEL * (PANEL * 4 + PANEL * width));
            const float *added = bias ? bias + first : 0;
            float *to = out + done * outputs + first;
            int64_t row = 0;
            for (; row + BLOCK <= some && row + 4 != some; row += BLOCK)
                panel(from, rounded + row * width, scales + row * spans, spans, added, to + row * outputs, outputs, BLOCK);
            for (; row + 2 <= some; row += 2)
                panel(from, rounded + row * width, scales + row * spans, spans, added, to + row * outputs, outputs, 2);
            if (row < some)
                panel(from, rounded + row * width, scales + row * spans, spans, added, to + row * outputs, outputs, 1);
        }
    }
}
