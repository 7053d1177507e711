/* SPDX-License-Identifier: Apache-2.0 */
/* A program of somebody else, in C++. */
#include <rlx/base.h>

#include <iostream>
#include <string>

int main() {
    if (std::string(rlx_status_text(RLX_OK)) != "ok") return 1;
    if (!std::string(rlx_last_error()).empty()) return 1;
    std::cout << "rlx " << rlx_version() << "\n";
    return 0;
}
