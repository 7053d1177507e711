/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that draw a plan. */
#ifndef RLX_PLAN_PICTURE_H
#define RLX_PLAN_PICTURE_H

#include "base/text.h"
#include "plan/plan.h"

/* What a buffer holds, for its colour and its tooltip. */
typedef struct picture_buffer {
    uint32_t slot;       /* the first that lies in it; RLX_NONE: a workspace */
    uint32_t slot_count; /* views included */
    uint32_t step;       /* the first that writes it or has it as workspace; RLX_NONE */
    uint32_t category;
} picture_buffer;

/* Buffers of one colour: an op's results, inputs, workspaces. */
typedef struct picture_category {
    const char *name; /* static text */
    uint64_t bytes;   /* in the entry that is being drawn */
    uint32_t count;
} picture_category;

/* An op's results have the op's number; then come these. */
enum {
    PICTURE_COPY = RLX_OP_COUNT,
    PICTURE_INPUT,
    PICTURE_WORKSPACE,
    PICTURE_OTHER,
    PICTURE_CATEGORIES
};

typedef struct picture {
    const rlx_plan *plan;
    rlx_text text;
    rlx_scratch memory;      /* owned: the tables */
    picture_buffer *buffers; /* per buffer of the plan */
    picture_category categories[PICTURE_CATEGORIES];
    uint64_t *live; /* per step of the plan: bytes alive */
} picture;

#define DRAW(p, ...) rlx_text_printf(&(p)->text, __VA_ARGS__)

/* Text for HTML, attributes included: markup escaped, control characters and broken UTF-8 replaced,
 * at most `most` characters (then "…"). */
void picture_words(picture *p, const char *words, size_t most);
/* The same, but what is cut is the beginning: the end of a name tells more. */
void picture_tail(picture *p, const char *words, size_t most);
/* "41.9 MiB", and "43,958,272". */
void picture_size(picture *p, uint64_t bytes);
void picture_count(picture *p, uint64_t count);
/* The buffer lies in scratch and is drawn with this entry. */
bool picture_is_in(const rlx_plan_buffer *buffer, uint32_t entry);

/* The diagram of one entry (picture_svg.c). */
void picture_svg(picture *p, uint32_t entry);

#endif
