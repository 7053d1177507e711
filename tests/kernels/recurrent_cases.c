/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/families.h"

#include <stdio.h>

/* Small weights on the state: else errors grow from step to step. */
static void write_case(uint32_t index, char *text, uint32_t bytes) {
    static const char *const ops[] = {"rnn", "gru", "lstm"}, *const outs[] = {"y, h", "y, h",
                                                                              "y, h, c"};
    static const char *const directions[] = {"forward", "reverse", "bidirectional"};
    int op = (int)(index % 3), gates = op == 0 ? 1 : op + 2;
    int direction = (int)kernel_pick(index, 0, 0, 2), ways = direction == 2 ? 2 : 1;
    int steps = (int)kernel_pick(index, 1, 0, 40), batch = (int)kernel_pick(index, 2, 1, 18);
    int inputs = (int)kernel_pick(index, 3, 1, 40), hidden = (int)kernel_pick(index, 4, 1, 40);
    bool is_first = kernel_pick(index, 5, 0, 1) == 1, has_bias = kernel_pick(index, 6, 0, 2) > 0;
    bool has_state = kernel_pick(index, 7, 0, 1) == 1;
    bool has_peepholes = op == 2 && kernel_pick(index, 8, 0, 1) == 1;
    bool is_packed = kernel_pick(index, 14, 0, 1) == 0;
    const char *packs = index % 2 == 0
                            ? "wp = pack(w) layout=rows16\nrp = pack(rk) layout=rows16\n"
                            : "wp = pack(w) layout=rows32\nrp = pack(rk) layout=rows32\n";
    bool has_lengths = kernel_pick(index, 13, 0, 2) == 0;
    char more[512], extra[128], lengths[128] = "";
    for (int i = 0, at = 0; i < batch; i++)
        at += snprintf(lengths + at, sizeof lengths - (size_t)at, "%s%d", i == 0 ? "" : ", ",
                       (int)kernel_pick(index, 20 + (uint32_t)i, 0, steps));
    (void)snprintf(extra, sizeof extra, "%s%s%s%s",
                   kernel_pick(index, 9, 0, 2) == 0 ? " clip=0.8" : "",
                   op == 1 && kernel_pick(index, 10, 0, 1) ? " linear_before_reset=true" : "",
                   op == 2 && kernel_pick(index, 10, 0, 2) == 0 ? " input_forget=true" : "",
                   kernel_pick(index, 11, 0, 5) != 0 ? ""
                   : op == 0                         ? " f=relu"
                                                     : " g=relu");
    (void)snprintf(more, sizeof more,
                   "input b : f32[%d, %d]\ninput s : f32[%d, %d, %d]\ninput p : f32[%d, %d]\n",
                   ways, 2 * gates * hidden, is_first ? batch : ways, is_first ? ways : batch,
                   hidden, ways, 3 * hidden);
    (void)snprintf(text, bytes,
                   "rlx 1\ninput x : %s[%d, %d, %d]\ninput w : f32[%d, %d, %d]\n"
                   "input r : f32[%d, %d, %d]\nconst n : i32[%d] = [%s]\n%sconst k : f32[1] = "
                   "[%g]\nrk = mul(r, k)\n%s"
                   "%s = %s(x, %s, %s, %s, %s, %s%s%s) direction=%s%s%s\n"
                   "output y\noutput h\n",
                   kernel_pick(index, 12, 0, 3) == 0 ? "f16" : "f32", is_first ? batch : steps,
                   is_first ? steps : batch, inputs, ways, gates * hidden, inputs, ways,
                   gates * hidden, hidden, batch, lengths, more, 0.25 / hidden,
                   is_packed ? packs : "", outs[op], ops[op], is_packed ? "wp" : "w",
                   is_packed ? "rp" : "rk", has_bias ? "b" : "_", has_lengths ? "n" : "_",
                   has_state ? "s" : "_",
                   op < 2      ? ""
                   : has_state ? ", s"
                               : ", _",
                   op < 2          ? ""
                   : has_peepholes ? ", p"
                                   : ", _",
                   directions[direction], is_first ? " batch_first=true" : "", extra);
}

static const char *const timed[] = {
    "rlx 1\ninput x : f32[100, 1, 128]\ninput w : f32[1, 512, 128]\ninput r : f32[1, 512, 128]\n"
    "y = lstm(x, w, r)\noutput y\n",
    "rlx 1\ninput x : f32[1, 1, 128]\ninput w : f32[1, 512, 128]\ninput r : f32[1, 512, 128]\n"
    "y = lstm(x, w, r)\noutput y\n",
    "rlx 1\ninput x : f32[33, 1, 16]\ninput w : f32[2, 24, 16]\ninput r : f32[2, 24, 8]\n"
    "y = gru(x, w, r) direction=bidirectional\noutput y\n",
    NULL,
};

const kernel_family kernel_recurrent = {"recurrent", 2e-5, 90, write_case, timed};
