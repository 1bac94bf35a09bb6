package frames

const (
	samples    = 32
	sampleSize = 512
	parts      = 8 // of a frame, each with its share of the samples
)

// evenness compares how often two bytes of b are equal with how often two random ones are, in per cent:
// 100 is random, text has about 1,000. all is over 32 samples of b, most the highest of its eighths. It sees no
// repeats and nothing between the samples, so it can only say where a closer look is worth its time.
// ok is false for what is too short to tell.
func evenness(b []byte) (all, most int, ok bool) {
	if len(b) < samples*sampleSize {
		return 0, 0, false
	}
	var total [256]int
	for part := range parts {
		var count [256]int
		for k := part * samples / parts; k < (part+1)*samples/parts; k++ {
			off := (len(b) - sampleSize) / (samples - 1) * k
			for _, x := range b[off : off+sampleSize] {
				count[x]++
			}
		}
		most = max(most, pairs(&count, samples/parts*sampleSize))
		for x, n := range count {
			total[x] += n
		}
	}
	return pairs(&total, samples*sampleSize), most, true
}

// pairs is the number of pairs of equal bytes among n, in per cent of the n²/512 that random ones have.
func pairs(count *[256]int, n int) int {
	sum := 0
	for _, c := range count {
		sum += c * (c - 1) / 2
	}
	return sum * 100 / (n * n / 512)
}

// LooksRandom reports whether nothing in samples of b speaks against all of it being random bytes.
func LooksRandom(b []byte) bool {
	all, most, ok := evenness(b)
	return ok && all < 110 && most < uneven
}

// looksMixed reports whether some part of b is not random at all, whatever the rest is.
func looksMixed(b []byte) bool {
	_, most, ok := evenness(b)
	return ok && most >= uneven
}

// uneven lies between what compressed formats have, 100 to 120, and text.
const uneven = 150
