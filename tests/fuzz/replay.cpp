// Runs a fuzz target once for every file of the folders and files named; without libFuzzer, in any build.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace {

namespace fs = std::filesystem;

void replay(const fs::path &file) {
    std::ifstream in(file, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
    // Of exactly that size, so that a read beyond the end is seen.
    const std::unique_ptr<uint8_t[]> exact(new uint8_t[bytes.size()]);
    std::copy(bytes.begin(), bytes.end(), exact.get());
    std::printf("%s\n", file.c_str());
    std::fflush(stdout); // the last line names the input that ended the process
    LLVMFuzzerTestOneInput(exact.get(), bytes.size());
}

} // namespace

int main(int argc, char **argv) {
    LLVMFuzzerInitialize(&argc, &argv);
    size_t count = 0;
    for (int i = 1; i < argc; ++i) {
        std::vector<fs::path> files;
        if (fs::is_directory(argv[i]))
            for (const fs::directory_entry &entry : fs::directory_iterator(argv[i]))
                files.push_back(entry.path());
        else if (fs::exists(argv[i]))
            files.emplace_back(argv[i]);
        std::sort(files.begin(), files.end());
        for (const fs::path &file : files)
            replay(file);
        count += files.size();
    }
    std::printf("%zu inputs\n", count);
    return count != 0 ? 0 : 1;
}
