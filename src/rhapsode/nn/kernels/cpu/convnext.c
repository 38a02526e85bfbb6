/* A ConvNeXt block: a depthwise convolution and a feed-forward network per position, added to the input. */
#include "layers.h"

typedef struct {
    int64_t channels, inner, taps, is_half, is_relu;
    double eps;
    const float *depthwise, *depthwise_bias; /* [taps, channels], [channels] */
    const float *norm, *norm_bias;
    const void *first, *second; /* packed, as layers are */
    const float *first_bias, *second_bias;
} ConvNeXt;

static float gelu(float value) { return 0.5f * value * (1.0f + erff(value * (float)M_SQRT1_2)); }

/* Floats that `run_convnext` needs to work in. */
int64_t convnext_space(const ConvNeXt *block, int64_t samples) {
    return (2 * samples + block->taps - 1) * block->channels +
           samples * (padded(block->inner) + padded(block->channels));
}

/* Continues a slot with `x [samples, channels]`, in place; `tail` has its last inputs, and moves on. */
void run_convnext(const ConvNeXt *block, float *x, int64_t samples, float *tail, float *space) {
    int64_t channels = block->channels, wide = padded(block->inner), past = (block->taps - 1) * channels;
    float *joined = space, *normed = joined + past + samples * channels, *inner = normed + samples * channels;
    float *made = inner + samples * wide;
    memcpy(joined, tail, past * sizeof(float));
    memcpy(joined + past, x, samples * channels * sizeof(float));
    memcpy(tail, joined + samples * channels, past * sizeof(float));
    for (int64_t t = 0; t < samples; t++) {
        float *out = normed + t * channels, mean = 0, spread = 0;
        memcpy(out, block->depthwise_bias, channels * sizeof(float));
        for (int64_t tap = 0; tap < block->taps; tap++)
            for (int64_t i = 0; i < channels; i++)
                out[i] += block->depthwise[tap * channels + i] * joined[(t + tap) * channels + i];
        for (int64_t i = 0; i < channels; i++) mean += out[i] / (float)channels;
        for (int64_t i = 0; i < channels; i++) spread += (out[i] - mean) * (out[i] - mean) / (float)channels;
        float scale = 1.0f / sqrtf(spread + (float)block->eps);
        for (int64_t i = 0; i < channels; i++) out[i] = (out[i] - mean) * scale * block->norm[i] + block->norm_bias[i];
    }
    multiply(block->first, block->is_half, block->first_bias, normed, samples, channels, wide, inner);
    for (int64_t t = 0; t < samples; t++)
        for (int64_t i = 0; i < block->inner; i++) { /* closed up, as the next product reads it */
            float value = inner[t * wide + i];
            inner[t * block->inner + i] = block->is_relu ? (value > 0 ? value : 0) : gelu(value);
        }
    multiply(block->second, block->is_half, block->second_bias, inner, samples, block->inner, padded(channels), made);
    for (int64_t t = 0; t < samples; t++)
        for (int64_t i = 0; i < channels; i++) x[t * channels + i] += made[t * padded(channels) + i];
}
