#include "places.h"

#include <unistd.h>

#include <filesystem>
#include <vector>

#include "text.h"

namespace llama {
namespace {

namespace fs = std::filesystem;

fs::path own_folder() {
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    if (error)
        fail("/proc/self/exe: %s", error.message().c_str());
    return self.parent_path();
}

std::string find(const std::string &name, const std::vector<fs::path> &folders, int access_mode) {
    std::string looked;
    for (const fs::path &folder : folders) {
        std::string candidate = (folder / name).lexically_normal().string();
        if (access(candidate.c_str(), access_mode) == 0)
            return candidate;
        looked += (looked.empty() ? "" : ", ") + candidate;
    }
    fail("%s was not found; looked for %s", name.c_str(), looked.c_str());
}

} // namespace

std::string find_program(const std::string &name) {
    const fs::path own = own_folder();
    return find(name, {own, own / KVF_LLAMA_PROGRAMS}, X_OK);
}

std::string find_model_file(const std::string &name) {
    return find(name, {own_folder() / KVF_LLAMA_MODEL, KVF_LLAMA_SOURCE_MODEL}, R_OK);
}

} // namespace llama
