/* How rows sample: one value per row each, in the order of the table of sampling parameters. */
#ifndef RHAPSODE_SAMPLING_H
#define RHAPSODE_SAMPLING_H

#include <stdint.h>

typedef struct {
    const float *temperature;
    const int64_t *top_k;
    const float *top_p, *min_p; /* min_p may be NULL */
    const int64_t *seeds, *steps;
    int64_t order; /* the number of an `SamplingOrder` */
} Settings;

/* Samples an id from `scores [size]`. The filters see the scores `seen [size]`; `space` has `size` floats. */
int64_t draw(const float *scores, const float *seen, int64_t size, const Settings *settings, int64_t row, int64_t book,
             float *space);

#endif
