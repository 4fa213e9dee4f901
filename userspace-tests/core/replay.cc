// SPDX-License-Identifier: GPL-2.0
/*
 * Without libFuzzer: replay FILE runs a fuzz target on the inputs of a corpus, a
 * line of hexadecimal digits each.  The last line number printed is that of the
 * input which broke a law.
 */
#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
	std::ifstream corpus(argc == 2 ? argv[1] : "");
	std::string line;
	int number = 0, inputs = 0;

	while (std::getline(corpus, line)) {
		std::vector<uint8_t> octets;

		number++;
		if (line.empty() || line[0] == '#')
			continue;
		std::cout << "line " << number << std::endl;
		for (size_t i = 0; i + 1 < line.size(); i += 2)
			octets.push_back(static_cast<uint8_t>(
				std::stoi(line.substr(i, 2), nullptr, 16)));
		LLVMFuzzerTestOneInput(octets.data(), octets.size());
		inputs++;
	}
	std::cout << inputs << " inputs" << std::endl;
	return inputs ? 0 : 1;
}
