/* Sampling of one row: the rules of `nn/sampling.py`, and its noise for the ids that are kept alone. */
#include "sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_P_FIRST = 1 }; /* of `SamplingOrder`; in what order the penalty comes, `scores` and `seen` say */

/* Standard Gumbel noise of an id, from Philox 4x32 with ten rounds: see `nn/philox.py`. */
static float gumbel(int64_t seed, int64_t step, int64_t book, int64_t id) {
    uint32_t counter[4] = {(uint32_t)id, (uint32_t)step, (uint32_t)book, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)((uint64_t)seed >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t first = (uint64_t)counter[0] * 0xD2511F53u, second = (uint64_t)counter[2] * 0xCD9E8D57u;
        counter[0] = (uint32_t)(second >> 32) ^ counter[1] ^ key[0];
        counter[2] = (uint32_t)(first >> 32) ^ counter[3] ^ key[1];
        counter[1] = (uint32_t)second;
        counter[3] = (uint32_t)first;
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    float uniform = ((float)(counter[0] >> 8) + 0.5f) * 0x1p-24f;
    if (uniform > 0x1.fffffep-1f) uniform = 0x1.fffffep-1f;
    return -logf(-logf(uniform));
}

static int ascending(const void *a, const void *b) {
    float first = *(const float *)a, second = *(const float *)b;
    return (first > second) - (first < second);
}

/* The k-th largest of `values`, which are put in another order. */
static float kth_largest(float *values, int64_t size, int64_t k) {
    int64_t low = 0, high = size - 1, place = size - k;
    while (low < high) {
        float pivot = values[(low + high) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (values[i] < pivot) i++;
            while (values[j] > pivot) j--;
            if (i > j) break;
            float other = values[i];
            values[i++] = values[j];
            values[j--] = other;
        }
        if (place <= j) high = j;
        else if (place >= i) low = i;
        else break;
    }
    return values[place];
}

/* Where in the sorted `values [size]` top-p begins to keep: the tail before it adds up to no more than 1 - p. */
static int64_t nucleus(const float *values, int64_t size, float temperature, float top_p) {
    float most = values[size - 1] / temperature, total = 0, tail = 0;
    for (int64_t i = 0; i < size; i++) total += expf(values[i] / temperature - most);
    for (int64_t i = 0; i < size - 1; i++) {
        tail += expf(values[i] / temperature - most) / total;
        if (!(tail <= 1 - top_p)) return i;
    }
    return size - 1;
}

static float likeliest(const float *scores, int64_t size) {
    float most = -INFINITY;
    for (int64_t i = 0; i < size; i++)
        if (scores[i] > most) most = scores[i];
    return most;
}

int64_t draw(const float *scores, const float *seen, int64_t size, const Settings *settings, int64_t row, int64_t book,
             float *space) {
    float temperature = settings->temperature[row], top_p = settings->top_p[row], least = -INFINITY;
    float reached = -INFINITY; /* what min-p asks for */
    int64_t top_k = settings->top_k[row], chosen = 0, skipped = 0;
    if (settings->min_p && settings->min_p[row] > 0)
        reached = likeliest(seen, size) + temperature * logf(settings->min_p[row]);
    if (top_k > 0 && top_k < size) {
        memcpy(space, seen, size * sizeof(float));
        least = kth_largest(space, size, top_k);
    }
    if (settings->order == MIN_P_FIRST && reached > least) least = reached;
    if (top_p < 1 && temperature > 0) {
        int64_t count = 0;
        for (int64_t i = 0; i < size; i++)
            if (seen[i] >= least && seen[i] > -INFINITY) space[count++] = seen[i];
        qsort(space, count, sizeof(float), ascending);
        if (count) {
            int64_t first = nucleus(space, count, temperature, top_p);
            least = space[first];
            while (skipped < first && space[first - skipped - 1] == least) skipped++; /* of equal ones the first go */
        }
    }
    if (reached > least) least = reached, skipped = 0;
    float best = -INFINITY;
    for (int64_t i = 0; i < size; i++) {
        if (seen[i] < least || seen[i] == -INFINITY) continue;
        if (seen[i] == least && skipped-- > 0) continue;
        float noisy = scores[i];
        if (temperature > 0) noisy += temperature * gumbel(settings->seeds[row], settings->steps[row], book, i);
        if (noisy > best) best = noisy, chosen = i;
    }
    return chosen;
}
