// valgrind's memcheck finds no error in a correct program with every form of new and delete.
#include "operators.h"

int main(int argc, char **argv) {
    if (begin(argc, argv) == nullptr)
        under_valgrind("memcheck");
    else
        every_operator();
    return 0;
}
