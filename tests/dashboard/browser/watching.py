"""Program for the page that watches how old its newest row is, and how well it moves."""

MIB = 1 << 20

WATCH = r"""async seconds => {
    const ages = []
    let frames = 0
    const began = performance.now()
    let looked = began
    while (performance.now() - began < seconds * 1000) {
        await new Promise(requestAnimationFrame)
        frames += 1
        if (performance.now() - looked < 200) continue
        looked = performance.now()
        const text = [...document.querySelectorAll('.sheet [role=row]')].map(row => row.innerText).join(' ')
        const times = text.match(/\d\d:\d\d:\d\d\.\d{3}/g) ?? []
        const now = new Date()
        const day = now.toISOString().slice(0, 11)
        ages.push(Math.min(...times.map(time => (now - new Date(day + time + 'Z')) / 1000)))
    }
    return {
        fps: frames * 1000 / (performance.now() - began),
        ages: ages,
        heap: performance.memory.usedJSHeapSize,
    }
}"""
