/* Products with weights of 8 bits, whose inputs are rounded to 8 bits, too. */
#ifndef RHAPSODE_BYTES_H
#define RHAPSODE_BYTES_H

#include <stdint.h>

/* out [rows, outputs] = x [rows, inputs] times packed weights; outputs are whole panels.
   A panel is its scales, one per output, and then the weights: four inputs of each output, and so on. */
void multiply_bytes(const void *weights, const float *bias, const float *x, int64_t rows, int64_t inputs,
                    int64_t outputs, float *out);

#endif
