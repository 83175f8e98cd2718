// Where front metrics count, each form of new and delete is counted once, as malloc and free are: what is counted is printed at the
// end (tests/world/CMakeLists.txt says what that must be). Of their band there is nothing else.
#include "process.h"

#include <new>

int main() {
    enum { ROUNDS = 1000, BYTES = 400 };
    world_begin(60);
    const std::nothrow_t &nt = std::nothrow;
    for (int i = 0; i < ROUNDS; i++) {
        ::operator delete(::operator new(BYTES));
        ::operator delete (::operator new(BYTES), std::size_t{BYTES});
        ::operator delete(::operator new(BYTES, nt), nt);
        ::operator delete[](::operator new[](BYTES));
        ::operator delete[](::operator new[](BYTES), std::size_t{BYTES});
        ::operator delete[](::operator new[](BYTES, nt), nt);
        ::operator delete(nullptr);
    }
    return 0;
}
