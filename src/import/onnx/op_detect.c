/* SPDX-License-Identifier: Apache-2.0 */
/* What detectors end with (NonMaxSuppression, RoiAlign), and Unique. */
#include "import/onnx/ops.h"

#include <string.h>

/* A number that may have rank 0 or 1. */
static rlx_value_id number(ox *o, uint32_t index, rlx_dtype dtype) {
    rlx_value_id value = ox_maybe(o, index);
    return value == RLX_NONE ? value : ox_cast(o, value, dtype);
}

/* How many boxes per class are planned for: as many as a constant says, else all of them. */
void rlx_ox_nms(ox *o) {
    rlx_nms_attrs attrs = {.center_point = ox_int(o, "center_point_box", 0) != 0};
    rlx_value_id most = number(o, 2, RLX_DTYPE_I64), out[2];
    const rlx_value_id inputs[] = {ox_in(o, 0), ox_in(o, 1), most, number(o, 3, RLX_DTYPE_F32),
                                   number(o, 4, RLX_DTYPE_F32)};
    if (ox_ok(o) && most != RLX_NONE && ox_is_constant(o, most) && ox_elements(o, most) == 1) {
        attrs.bound = ox_need_int(o, most);
        if (attrs.bound < 0) attrs.bound = 0;
    }
    ox_nodes(o, RLX_OP_NMS, &attrs, inputs, 5, out, 2);
    ox_give(o, 0, out[0]);
}

void rlx_ox_roi_align(ox *o) {
    const char *mode = ox_text(o, "mode", "avg");
    const char *coordinates = ox_text(o, "coordinate_transformation_mode",
                                      o->since >= 16 ? "half_pixel" : "output_half_pixel");
    rlx_roi_align_attrs attrs = {.height = ox_int(o, "output_height", 1),
                                 .width = ox_int(o, "output_width", 1),
                                 .samples = ox_int(o, "sampling_ratio", 0),
                                 .scale = ox_float(o, "spatial_scale", 1),
                                 .half_pixel = strcmp(coordinates, "half_pixel") == 0,
                                 .largest = strcmp(mode, "max") == 0};
    if (!attrs.half_pixel && strcmp(coordinates, "output_half_pixel") != 0)
        ox_invalid(o, "coordinate_transformation_mode '%s' is not known", coordinates);
    if (!attrs.largest && strcmp(mode, "avg") != 0) ox_invalid(o, "mode '%s' is not known", mode);
    const rlx_value_id inputs[] = {ox_in(o, 0), ox_in(o, 1), ox_in(o, 2)};
    if (ox_ok(o) && attrs.scale == 0) ox_invalid(o, "spatial_scale is 0");
    ox_give(o, 0, ox_node(o, RLX_OP_ROI_ALIGN, &attrs, inputs, 3));
}

void rlx_ox_unique(ox *o) {
    rlx_unique_attrs attrs = {.by_axis = ox_attr(o, "axis") != NULL,
                              .axis = ox_int(o, "axis", 0),
                              .unsorted = ox_int(o, "sorted", 1) == 0};
    rlx_value_id x = ox_in(o, 0), out[5];
    ox_nodes(o, RLX_OP_UNIQUE, &attrs, &x, 1, out, 5);
    for (uint32_t i = 0; i < 4; i++)
        ox_give(o, i, out[i]);
}
