// Two copies of the runtime in one process have two ideas of every device. The vendor's stack warns about it in a
// banner; its first words are publicly known, the rest is ours.

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <link.h>

static int collectRuntime(dl_phdr_info* info, size_t, void* paths) {
    const char* slash = std::strrchr(info->dlpi_name, '/');
    const char* name = slash == nullptr ? info->dlpi_name : slash + 1;
    if (std::strncmp(name, "libxpurt.so", std::strlen("libxpurt.so")) == 0) {
        static_cast<std::vector<std::string>*>(paths)->push_back(info->dlpi_name);
    }
    return 0;
}

// Runs when this copy is loaded, so it is the second copy that speaks.
__attribute__((constructor)) static void warnAboutSecondCopy() {
    std::vector<std::string> paths;
    dl_iterate_phdr(collectRuntime, &paths);
    if (paths.size() < 2) {
        return;
    }
    const std::string rule(72, '=');
    std::string text = rule + "\nWARNING: Libraries loaded from different directories!\n";
    for (const std::string& path : paths) {
        text += "  " + path + "\n";
    }
    std::fputs((text + rule + "\n").c_str(), stderr);
}
