// SPDX-License-Identifier: Apache-2.0
// How many of the lanes before this one bring how much, and all of them together; every lane calls.
shared int scanned[64];
int sum_before(int mine, out int all) {
    barrier();
    scanned[lane()] = mine;
    barrier();
    for (int n = 1; n < 64; n <<= 1) {
        int left = lane() >= n ? scanned[lane() - n] : 0;
        barrier();
        scanned[lane()] += left;
        barrier();
    }
    all = scanned[63];
    return scanned[lane()] - mine;
}
