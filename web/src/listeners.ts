// Who wants to know of a change, as long as the element that asks is in the page.

export class Listeners {
  private all: { owner: WeakRef<Element>; act: () => void; wasShown: boolean }[] = [];

  add(owner: Element, act: () => void): void {
    this.all.push({ owner: new WeakRef(owner), act, wasShown: false });
  }

  /** Tells those in the page, and lets go of those that left it. */
  tell(): void {
    this.all = this.all.filter((one) => {
      const owner = one.owner.deref();
      if (!owner || (one.wasShown && !owner.isConnected)) return false;
      one.wasShown ||= owner.isConnected;
      one.act();
      return true;
    });
  }
}
