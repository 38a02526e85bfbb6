/* What all kernels share: vectors of the machine's own width, and weights of 16 bits. */
#ifndef RHAPSODE_VECTORS_H
#define RHAPSODE_VECTORS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#if defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
#if defined(__AVX512F__)
enum { WIDE = 16 }; /* lanes where most of the time is spent */
#else
enum { WIDE = LANES };
#endif

#define UNROLL _Pragma("GCC unroll 16")

typedef float Lanes __attribute__((vector_size(LANES * 4), aligned(4)));
typedef float Wide __attribute__((vector_size(WIDE * 4), aligned(4)));

static inline Lanes load(const float *from) { return *(const Lanes *)from; }

static inline void store(float *to, Lanes value) { *(Lanes *)to = value; }

static inline Lanes widen(const uint16_t *from) {
#if defined(__F16C__)
    return (Lanes)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
#elif defined(__ARM_NEON)
    return (Lanes)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
#else
    Lanes wide;
    for (int i = 0; i < LANES; i++) {
        union { uint32_t bits; float value; } number = {.bits = (uint32_t)(from[i] & 0x7fff) << 13};
        number.value *= 0x1p112f; /* the exponent of a float is counted from elsewhere */
        number.bits |= (uint32_t)(from[i] & 0x8000) << 16;
        wide[i] = number.value;
    }
    return wide;
#endif
}

static inline Wide widen_all(const uint16_t *from) {
#if defined(__AVX512F__)
    return (Wide)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
#else
    return widen(from);
#endif
}

#endif
