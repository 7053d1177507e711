/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in text. The C library does the decimal conversions, which are exact; what it takes from
 * the locale (the decimal point) is put right here. Knows nothing of graphs. */
#include "ir/text_number.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* What the locale writes between "0" and "5". */
static size_t decimal_point(char out[16]) {
    char half[24];
    int length = snprintf(half, sizeof half, "%.1f", 0.5);
    size_t bytes = length > 2 && length < 18 ? (size_t)length - 2 : 0;
    memcpy(out, half + 1, bytes);
    return bytes;
}

static void put_point(char *text) {
    char point[16];
    size_t bytes = decimal_point(point);
    if (bytes == 1 && point[0] == '.') return;
    for (char *at = text; *at != 0; at++) {
        if (strncmp(at, point, bytes) != 0) continue;
        *at = '.';
        memmove(at + 1, at + bytes, strlen(at + bytes) + 1);
        return;
    }
}

/* strtod on text[0, length) with a '.'; false unless all of it was read. */
static bool read_real(const char *text, size_t length, double *out_value) {
    char buffer[448], point[16], *end = NULL;
    size_t bytes = decimal_point(point), used = 0;
    if (length + 16 >= sizeof buffer) return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '.') {
            if (used + bytes + (length - i) >= sizeof buffer) return false;
            memcpy(buffer + used, point, bytes);
            used += bytes;
        } else {
            buffer[used++] = text[i];
        }
        if (used + 1 >= sizeof buffer) return false;
    }
    buffer[used] = 0;
    *out_value = strtod(buffer, &end);
    return end == buffer + used && used > 0;
}

/* Few digits first; `same` tells whether what was written reads back to the same element. */
static void print_digits(double value, int least, char out[RLX_NUMBER_BYTES], rlx_dtype dtype) {
    for (int digits = least; digits <= 17; digits++) {
        uint64_t wanted = 0, got = 0;
        double back = 0;
        snprintf(out, RLX_NUMBER_BYTES, "%.*g", digits, value);
        put_point(out);
        if (!read_real(out, strlen(out), &back)) continue;
        rlx_store_f64(dtype, &wanted, 0, value);
        rlx_store_f64(dtype, &got, 0, back);
        if (wanted == got) return;
    }
}

static void print_real(double value, rlx_dtype dtype, char out[RLX_NUMBER_BYTES]) {
    if (isnan(value)) {
        memcpy(out, "nan", 4);
    } else if (isinf(value)) {
        memcpy(out, value < 0 ? "-inf" : "inf", value < 0 ? 5 : 4);
    } else if (fabs(value) < 1e15 && value == floor(value)) {
        snprintf(out, RLX_NUMBER_BYTES, "%.0f", value); /* "-0" too */
    } else {
        int least = dtype == RLX_DTYPE_F64 ? 15 : dtype == RLX_DTYPE_F32 ? 6 : 1;
        print_digits(value, least, out, dtype);
    }
}

void rlx_number_print_f64(double value, char out[RLX_NUMBER_BYTES]) {
    print_real(value, RLX_DTYPE_F64, out);
}

void rlx_number_print_element(rlx_dtype dtype, const void *data, int64_t index,
                              char out[RLX_NUMBER_BYTES]) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    switch (row == NULL ? RLX_CLASS_BLOCK : row->class_) {
    case RLX_CLASS_FLOAT:
    case RLX_CLASS_BLOCK:
        print_real(rlx_load_f64(dtype, data, index), dtype, out);
        return;
    case RLX_CLASS_SIGNED:
        snprintf(out, RLX_NUMBER_BYTES, "%" PRId64, rlx_load_i64(dtype, data, index));
        return;
    case RLX_CLASS_UNSIGNED:
        snprintf(out, RLX_NUMBER_BYTES, "%" PRIu64, (uint64_t)rlx_load_i64(dtype, data, index));
        return;
    case RLX_CLASS_BOOL:
        snprintf(out, RLX_NUMBER_BYTES, "%s",
                 rlx_load_i64(dtype, data, index) != 0 ? "true" : "false");
        return;
    }
}

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 16;
}

/* Digits only, in base 10 or after 0x in base 16; false when it is no such thing or too large. */
static bool read_magnitude(const char *text, size_t length, uint64_t *out_value) {
    uint64_t value = 0;
    unsigned base = 10;
    if (length > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        base = 16;
        text += 2;
        length -= 2;
    }
    if (length == 0) return false;
    for (size_t i = 0; i < length; i++) {
        unsigned digit = (unsigned)digit_of(text[i]);
        if (digit >= base) return false;
        if (__builtin_mul_overflow(value, (uint64_t)base, &value)) return false;
        if (__builtin_add_overflow(value, (uint64_t)digit, &value)) return false;
    }
    *out_value = value;
    return true;
}

static bool is_word(const char *text, size_t length, const char *word) {
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

static bool read_word(const char *text, size_t length, rlx_number *number) {
    bool is_true = is_word(text, length, "true");
    if (is_true || is_word(text, length, "false")) {
        *number = (rlx_number){is_true, true, false, is_true};
    } else if (is_word(text, length, "inf")) {
        number->real = (double)INFINITY;
    } else if (is_word(text, length, "nan")) {
        number->real = (double)NAN;
    } else {
        return false;
    }
    return true;
}

bool rlx_number_read(const char *text, size_t length, rlx_number *out_number) {
    rlx_number number = {0};
    bool is_signed = length > 0 && (text[0] == '-' || text[0] == '+');
    const char *digits = text + is_signed;
    size_t left = length - is_signed;

    if (!read_word(digits, left, &number)) {
        /* Only digits and a point may begin: strtod would also take words and blanks. */
        if (left == 0 || (digit_of(digits[0]) > 9 && digits[0] != '.')) return false;
        number.is_integer = read_magnitude(digits, left, &number.magnitude);
        if (!read_real(digits, left, &number.real) || isinf(number.real)) return false;
    }
    if (is_signed && text[0] == '-') {
        number.is_negative = true;
        number.real = -number.real;
    }
    *out_number = number;
    return true;
}

bool rlx_number_i64(const rlx_number *number, int64_t *out_value) {
    uint64_t limit = (uint64_t)INT64_MAX + number->is_negative;
    if (!number->is_integer || number->magnitude > limit) return false;
    *out_value =
        number->is_negative ? (int64_t)(0 - number->magnitude) : (int64_t)number->magnitude;
    return true;
}

bool rlx_number_u64(const rlx_number *number, uint64_t *out_value) {
    if (!number->is_integer || (number->is_negative && number->magnitude != 0)) return false;
    *out_value = number->magnitude;
    return true;
}

static bool store_real(double value, rlx_dtype dtype, void *data, int64_t index) {
    uint8_t probe[8] = {0};
    rlx_store_f64(dtype, probe, 0, value);
    if (isfinite(value) && !isfinite(rlx_load_f64(dtype, probe, 0))) return false;
    rlx_store_f64(dtype, data, index, value);
    return true;
}

bool rlx_number_store(const rlx_number *number, rlx_dtype dtype, void *data, int64_t index) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    if (row == NULL || row->class_ == RLX_CLASS_BLOCK) return false;
    if (row->class_ == RLX_CLASS_FLOAT) return store_real(number->real, dtype, data, index);

    uint32_t bits = row->block_bytes * 8 / row->block_elements;
    uint64_t most = row->class_ == RLX_CLASS_BOOL ? 1 : UINT64_MAX >> (64 - bits);
    bool is_signed = row->class_ == RLX_CLASS_SIGNED;
    if (is_signed) most = (most >> 1) + number->is_negative;
    if (!number->is_integer || number->magnitude > most) return false;
    if (!is_signed && number->is_negative && number->magnitude != 0) return false;
    uint64_t value = number->is_negative ? 0 - number->magnitude : number->magnitude;
    rlx_store_i64(dtype, data, index, (int64_t)value);
    return true;
}
