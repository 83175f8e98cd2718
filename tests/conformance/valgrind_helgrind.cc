// valgrind's helgrind finds no race in a correct program whose threads pass blocks to each other.
#include "operators.h"

int main(int argc, char **argv) {
    if (begin(argc, argv) == nullptr)
        under_valgrind("helgrind");
    else
        shared_between_threads();
    return 0;
}
