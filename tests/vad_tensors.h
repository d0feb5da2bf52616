/* vad_tensors.h: the tensors of a voice detector, for tests that write a model file with one. Their
   names follow "extra.vad." in the file. */
#ifndef VAD_TENSORS_H
#define VAD_TENSORS_H

#include <stdint.h>

static const struct {
    const char *name;
    int rank;
    int64_t dims[3];
} vad_tensors[] = {{"waves.weight", 2, {258, 256, 0}}, {"conv1.weight", 3, {128, 3, 129}},
                   {"conv1.bias", 1, {128, 0, 0}},     {"conv2.weight", 3, {64, 3, 128}},
                   {"conv2.bias", 1, {64, 0, 0}},      {"conv3.weight", 3, {64, 3, 64}},
                   {"conv3.bias", 1, {64, 0, 0}},      {"conv4.weight", 3, {128, 3, 64}},
                   {"conv4.bias", 1, {128, 0, 0}},     {"lstm.weight", 2, {512, 256, 0}},
                   {"lstm.bias", 1, {512, 0, 0}},      {"out.weight", 2, {1, 128, 0}},
                   {"out.bias", 1, {1, 0, 0}}};

#endif
